import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.s3.conftest import client_of, store_buckets
from tests.lake.s3.harness import KEY, SECRET
from tests.lake.s3.raw import raw_s3
from tests.plumbing.http.harness import connect, echo_site

from penstock.lake.s3 import Keyring, S3Gateway
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import App
from penstock.plumbing.http.server import HttpServer


def code_of(body: bytes) -> str:
    return body.partition(b"<Code>")[2].partition(b"<")[0].decode()


async def test_it_shares_a_port_and_claims_only_what_is_signed() -> None:
    async with store_buckets() as buckets:
        gateway = S3Gateway(buckets, Keyring({KEY: Secret(SECRET)}), domain="s3.test")
        server = await HttpServer.start(App([gateway.site(), echo_site()]))
        async with server, connect(server) as client:
            assert (await client.ask(b"GET /hello/you HTTP/1.1\r\nhost: x\r\n\r\n")).body == b"hello you"
            for line in (b"authorization: AWS4-HMAC-SHA256 x", b"host: a.s3.test:80", b"host: S3.TEST"):
                answer = await client.ask(b"GET /hello/you HTTP/1.1\r\n%b\r\n\r\n" % line)
                assert (answer.status, answer.headers["content-type"]) in (
                    (400, "application/xml"),
                    (403, "application/xml"),
                )
            presigned = await client.ask(b"GET /hello/you?X-Amz-Credential=x HTTP/1.1\r\n\r\n")
            assert code_of(presigned.body) == "AccessDenied"
            assert (await client.ask(b"GET /hello/you?%ff=%ff HTTP/1.1\r\n\r\n")).body == b"hello you"


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "code"),
    [
        ("GET", "/", "", 200, ""),
        ("PUT", "/", "", 501, "NotImplemented"),
        ("POST", "/bucket", "", 501, "NotImplemented"),
        ("PATCH", "/bucket/k", "", 405, "MethodNotAllowed"),
        ("GET", "/bucket", "policy", 501, "NotImplemented"),
        ("PUT", "/bucket/k", "tagging", 501, "NotImplemented"),
        ("GET", "/bucket", "versions", 501, "NotImplemented"),
        ("GET", "/bucket", "max-keys=many", 400, "InvalidArgument"),
        ("GET", "/bucket", "encoding-type=html", 400, "InvalidArgument"),
        ("GET", "/bucket/" + "k" * 1025, "", 400, "KeyTooLongError"),
        ("GET", "/nowhere/k", "", 404, "NoSuchBucket"),
        ("GET", "/bucket/k", "uploadId=../x", 404, "NoSuchUpload"),
        ("POST", "/bucket", "delete", 400, "MalformedXML"),
        ("PUT", "/bucket/k", "partNumber=x&uploadId=y", 404, "NoSuchUpload"),
    ],
)
async def test_operations_which_are_not_there_say_so(
    method: str, path: str, query: str, status: int, code: str
) -> None:
    async with raw_s3() as s3:
        answer = await s3.ask(method, path, query=query)
        assert (answer.status, code_of(answer.body)) == (status, code)
        assert answer.headers["x-amz-request-id"] == answer.headers["x-request-id"]
        assert (await s3.ask("HEAD", "/bucket")).status == 200


async def test_headers_are_bytes_and_metadata_is_utf8() -> None:
    async with raw_s3() as s3:
        city = "Zürich".encode().decode("latin-1")
        put = await s3.ask("PUT", "/bucket/k", b"x", x_amz_meta_city=city, content_encoding="gzip,aws-chunked")
        assert put.status == 200
        got = await s3.ask("GET", "/bucket/k")
    assert (got.headers["x-amz-meta-city"], got.headers["content-encoding"]) == (city, "gzip")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x_amz_meta_a": "b" * 2100}, "MetadataTooLarge"),
        ({"if_none_match": '"etag"'}, "NotImplemented"),
        ({"if_none_match": "*", "if_match": "x"}, "InvalidRequest"),
        ({"if_match": '"a","b"'}, "NotImplemented"),
        ({"x_amz_copy_source": "bucket"}, "InvalidArgument"),
        ({"x_amz_copy_source": "/bucket/%ff"}, "InvalidArgument"),
    ],
)
async def test_bad_headers_of_a_put_are_refused(headers: dict[str, str], code: str) -> None:
    async with raw_s3() as s3:
        answer = await s3.ask("PUT", "/bucket/k", b"", **headers)
        assert code_of(answer.body) == code
        assert (await s3.ask("HEAD", "/bucket/k")).status == 404


async def test_a_client_which_dies_in_the_middle_of_a_put_leaves_nothing() -> None:
    async with store_buckets() as buckets:
        await buckets.create_bucket("bucket")
        gateway = S3Gateway(buckets, Keyring({KEY: Secret(SECRET)}))
        server = await HttpServer.start(App([gateway.site()]))
        async with server:
            url = await asyncio.to_thread(
                lambda: client_of(server.url).generate_presigned_url("put_object", {"Bucket": "bucket", "Key": "k"})
            )
            target = url.removeprefix(server.url)
            async with connect(server) as client:
                host = "{}:{}".format(*server.address)
                client.writer.write(
                    f"PUT {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 100\r\n\r\nhalf".encode()
                )
                await client.writer.drain()
        assert [one async for page in buckets.scratch.list("names/") for one in page.objects] == []


NAMES = [
    "uploads",
    "uploadId",
    "partNumber",
    "list-type",
    "prefix",
    "max-keys",
    "delete",
    "acl",
    "continuation-token",
    "x",
]
HEADERS = [
    "range",
    "if-match",
    "if-none-match",
    "x-amz-copy-source",
    "content-md5",
    "x-amz-checksum-crc32",
    "x-amz-trailer",
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
            st.sampled_from(["/", "/bucket", "/bucket/", "/bucket/k", "/bucket/a%2Fb", "/other/k", "//", "/bucket//"]),
            st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["", "1", "-1", "x", "AAAA", "2"]), max_size=3),
            st.dictionaries(
                st.sampled_from(HEADERS), st.sampled_from(["*", "x", "bytes=0-", "/bucket/k", "AAAAAA=="]), max_size=2
            ),
            st.sampled_from([b"", b"x", b"<Delete/>", b"<CompleteMultipartUpload/>"]),
        ),
        max_size=6,
    )
)
def test_any_signed_request_has_an_answer(
    asked: list[tuple[str, str, dict[str, str], dict[str, str], bytes]],
) -> None:
    async def main() -> None:
        async with raw_s3() as s3:
            for method, path, query, headers, body in asked:
                text = "&".join(f"{name}={value}" for name, value in query.items())
                fields = {name.replace("-", "_"): value for name, value in headers.items()}
                answer = await s3.ask(method, path, body, text, **fields)
                assert answer.status < 500 or answer.status == 501, (method, path, text, headers, answer)

    asyncio.run(main())
