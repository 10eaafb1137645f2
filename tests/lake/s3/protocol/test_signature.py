"""The examples of Amazon's own documentation, botocore as an oracle for everything else, and hostile input."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import PenstockError
from penstock.lake.s3.protocol.signature import Signed, claim_of, is_signed, verify

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
MAY = datetime(2013, 5, 24, tzinfo=UTC)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = "examplebucket.s3.amazonaws.com"


def headers_of(signature: str, **headers: str) -> dict[str, str]:
    found = {"host": HOST, "x-amz-date": "20130524T000000Z", "x-amz-content-sha256": EMPTY}
    found |= {name.replace("_", "-"): value for name, value in headers.items()}
    found["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={ACCESS}/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={';'.join(sorted(found))},Signature={signature}"
    )
    return found


def check(
    headers: dict[str, str], method: str = "GET", path: str = "/", query: str = "", now: datetime = MAY, **kwargs: str
) -> Signed:
    pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)]
    claim = claim_of(headers, [(name, value.replace("%2F", "/").replace("%3B", ";")) for name, value in pairs])
    assert claim.access_key == kwargs.get("access_key", ACCESS)
    return verify(
        claim,
        kwargs.get("secret", SECRET),
        now,
        method=method,
        raw_path=path,
        raw_query=query,
        headers=headers,
    )


@pytest.mark.parametrize(
    ("method", "path", "query", "headers"),
    [
        (
            "GET",
            "/test.txt",
            "",
            headers_of("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", range="bytes=0-9"),
        ),
        (
            "PUT",
            "/test$file.text",
            "",
            headers_of(
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
                date="Fri, 24 May 2013 00:00:00 GMT",
                x_amz_storage_class="REDUCED_REDUNDANCY",
                x_amz_content_sha256="44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            ),
        ),
        ("GET", "/", "lifecycle", headers_of("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")),
        (
            "GET",
            "/",
            "prefix=J&max-keys=2",
            headers_of("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ),
    ],
)
def test_documented_examples(method: str, path: str, query: str, headers: dict[str, str]) -> None:
    assert check(headers, method, path, query).access_key == ACCESS
    with pytest.raises(PenstockError, match="does not fit"):
        check(headers, method, path + "x", query)
    with pytest.raises(PenstockError, match="does not fit"):
        check(headers, method, path, query, secret=SECRET + "x")


PRESIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def test_the_documented_presigned_example_and_its_end() -> None:
    headers = {"host": HOST}
    assert check(headers, path="/test.txt", query=PRESIGNED).payload == "UNSIGNED-PAYLOAD"
    late = MAY + timedelta(days=1)
    check(headers, path="/test.txt", query=PRESIGNED, now=late)
    with pytest.raises(PenstockError, match="has expired"):
        check(headers, path="/test.txt", query=PRESIGNED, now=late + timedelta(seconds=1))
    with pytest.raises(PenstockError, match="check the client's clock"):
        check(headers, path="/test.txt", query=PRESIGNED, now=MAY - timedelta(minutes=16))
    with pytest.raises(PenstockError, match="does not fit"):
        check(headers, path="/test.txt", query=PRESIGNED.replace("86400", "86401"))


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_header_signature_is_good_for_a_quarter_of_an_hour(minutes: int) -> None:
    headers = headers_of("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
    check(headers, query="lifecycle", now=MAY + timedelta(minutes=14))
    with pytest.raises(PenstockError, match="check the client's clock") as caught:
        check(headers, query="lifecycle", now=MAY + timedelta(minutes=minutes))
    assert caught.value.details["s3"] == "RequestTimeTooSkewed"


def test_what_is_not_signed_is_not_believed() -> None:
    headers = headers_of("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
    with pytest.raises(PenstockError, match="not signed: x-amz-meta-admin"):
        check({**headers, "x-amz-meta-admin": "yes"}, query="lifecycle")
    without_host = headers["authorization"].replace("host;", "")
    with pytest.raises(PenstockError, match="host header is not signed"):
        check({**headers, "authorization": without_host}, query="lifecycle")
    more = headers["authorization"].replace("host;", "host;range;")
    with pytest.raises(PenstockError, match="missing from the request"):
        check({**headers, "authorization": more}, query="lifecycle")


GOOD = headers_of("0" * 64)["authorization"]


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", "AccessDenied"),
        ("AWS AKIA:abc=", "InvalidRequest"),
        ("Bearer x", "InvalidRequest"),
        ("AWS4-HMAC-SHA256 ", "AuthorizationHeaderMalformed"),
        (GOOD.replace("us-east-1/", ""), "AuthorizationHeaderMalformed"),
        (GOOD.replace("aws4_request", "aws5_request"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("/s3/", "/sqs/"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("/20130524/", "/20130525/"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("SignedHeaders=host", "SignedHeaders=zoo;host"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("SignedHeaders=host", "SignedHeaders=host;host"), "AuthorizationHeaderMalformed"),
        (GOOD.replace("SignedHeaders=host", "SignedHeaders=Host"), "AuthorizationHeaderMalformed"),
        (GOOD[:-1], "SignatureDoesNotMatch"),
        (GOOD[:-1] + "g", "SignatureDoesNotMatch"),
    ],
)
def test_bad_authorizations_say_what_is_bad(authorization: str, code: str) -> None:
    headers = {**headers_of(""), "authorization": authorization}
    with pytest.raises(PenstockError) as caught:
        check(headers)
    assert caught.value.details["s3"] == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("AWS4-HMAC-SHA256", "AWS4-ECDSA"), "AuthorizationQueryParametersError"),
        (("X-Amz-Date=20130524T000000Z&", ""), "AuthorizationQueryParametersError"),
        (("86400", "604801"), "AuthorizationQueryParametersError"),
        (("86400", "0"), "AuthorizationQueryParametersError"),
        (("86400", "-1"), "AuthorizationQueryParametersError"),
        (("86400", "9" * 5000), "AuthorizationQueryParametersError"),
        (("20130524T000000Z", "20130524T996699Z"), "AccessDenied"),
    ],
)
def test_bad_presigned_queries_say_what_is_bad(change: tuple[str, str], code: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check({"host": HOST}, path="/test.txt", query=PRESIGNED.replace(*change))
    assert caught.value.details["s3"] == code


def test_a_gateway_knows_what_is_meant_for_it() -> None:
    assert is_signed({"authorization": GOOD}, "")
    assert is_signed({"authorization": "AWS AKIA:x"}, "")
    assert is_signed({}, "a=b&X-Amz-Credential=x")
    assert not is_signed({"authorization": "Basic x"}, "page=1")


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(path=st.lists(names, max_size=4), query=st.lists(st.tuples(names, names | st.just("")), max_size=4), presign=...)
def test_what_botocore_signs_is_verified(path: list[str], query: list[tuple[str, str]], presign: bool) -> None:
    raw_path = "/bucket/" + "/".join(quote(part, safe="-_.~") for part in path)
    raw_query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query)
    request = AWSRequest("GET", f"http://127.0.0.1:9000{raw_path}?{raw_query}", headers={"x-amz-meta-a": "b  c"})
    request.context["payload_signing_enabled"] = True
    auth: Any = S3SigV4QueryAuth if presign else S3SigV4Auth
    auth(Credentials(ACCESS, SECRET), "s3", "eu-west-1").add_auth(request)
    parts = urlsplit(request.prepare().url)
    headers = {name.lower(): value for name, value in request.headers.items()} | {"host": "127.0.0.1:9000"}
    claim = claim_of(headers, _decoded(parts.query))
    arguments: dict[str, Any] = {"method": "GET", "raw_path": parts.path, "headers": headers}
    assert verify(claim, SECRET, datetime.now(UTC), raw_query=parts.query, **arguments).access_key == ACCESS
    with pytest.raises(PenstockError):
        verify(claim, SECRET, datetime.now(UTC), raw_query=parts.query + "&more=1", **arguments)


def _decoded(query: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in query.split("&") if part]
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


@given(st.text(max_size=120), st.lists(st.tuples(st.sampled_from(["X-Amz-Algorithm", "X-Amz-Date", "a"]), st.text())))
def test_any_claim_is_read_or_refused(authorization: str, query: list[tuple[str, str]]) -> None:
    for text in (authorization, f"AWS4-HMAC-SHA256 {authorization}", GOOD.replace("host", authorization)):
        headers = {"host": HOST, "x-amz-date": "20130524T000000Z", "authorization": text}
        try:
            claim = claim_of(headers, query)
        except PenstockError:
            continue
        with pytest.raises(PenstockError):
            verify(claim, SECRET, MAY, method="GET", raw_path="/", raw_query="", headers=headers)
