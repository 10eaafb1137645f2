"""boto3, with its defaults: streaming checksums, version 2 of presigned URLs."""

import hashlib
import io
from typing import Any

import boto3
import urllib3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.matrix.s3_clients.program import BUCKET, ENDPOINT, REGION, main

s3: Any = boto3.client("s3", endpoint_url=ENDPOINT, region_name=REGION)
LARGE = bytes(range(256)) * 81_920  # 20 MiB


def code_of(call: Any, **arguments: Any) -> str:
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def objects() -> None:
    """put, head, get, ranges, delete"""
    s3.put_object(Bucket=BUCKET, Key="main/boto/a b+é.txt", Body=b"0123456789", ContentType="text/plain")
    head = s3.head_object(Bucket=BUCKET, Key="main/boto/a b+é.txt")
    assert (head["ContentLength"], head["ContentType"]) == (10, "text/plain")
    part = s3.get_object(Bucket=BUCKET, Key="main/boto/a b+é.txt", Range="bytes=2-4")
    assert (part["Body"].read(), part["ContentRange"]) == (b"234", "bytes 2-4/10")
    s3.delete_object(Bucket=BUCKET, Key="main/boto/a b+é.txt")
    assert code_of(s3.head_object, Bucket=BUCKET, Key="main/boto/a b+é.txt") == "404"
    assert code_of(s3.get_object, Bucket=BUCKET, Key="main/boto/a b+é.txt") == "NoSuchKey"


def metadata() -> None:
    """user metadata, with S3's lower-case names"""
    s3.put_object(Bucket=BUCKET, Key="main/boto/meta", Body=b"x", Metadata={"Owner-Name": "Ada", "plain": "1"})
    assert s3.head_object(Bucket=BUCKET, Key="main/boto/meta")["Metadata"] == {"owner-name": "Ada", "plain": "1"}
    s3.copy_object(
        Bucket=BUCKET, Key="main/boto/meta", CopySource=f"{BUCKET}/main/boto/meta", MetadataDirective="REPLACE",
        Metadata={"new": "2"},
    )  # fmt: skip
    assert s3.head_object(Bucket=BUCKET, Key="main/boto/meta")["Metadata"] == {"new": "2"}


def multipart() -> None:
    """multipart uploads and downloads (20 MiB), copies of parts"""
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(LARGE), BUCKET, "main/boto/large", Config=config)
    assert s3.head_object(Bucket=BUCKET, Key="main/boto/large")["ETag"].endswith('-4"')
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, "main/boto/large", back, Config=config)
    assert hashlib.sha256(back.getvalue()).digest() == hashlib.sha256(LARGE).digest()
    s3.copy({"Bucket": BUCKET, "Key": "main/boto/large"}, BUCKET, "main/boto/copied", Config=config)
    assert s3.head_object(Bucket=BUCKET, Key="main/boto/copied")["ContentLength"] == len(LARGE)
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="main/boto/given-up")["UploadId"]
    s3.upload_part(Bucket=BUCKET, Key="main/boto/given-up", UploadId=upload, PartNumber=1, Body=b"1")
    assert len(s3.list_parts(Bucket=BUCKET, Key="main/boto/given-up", UploadId=upload)["Parts"]) == 1
    assert [each["UploadId"] for each in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]] == [upload]
    s3.abort_multipart_upload(Bucket=BUCKET, Key="main/boto/given-up", UploadId=upload)
    assert code_of(s3.list_parts, Bucket=BUCKET, Key="main/boto/given-up", UploadId=upload) == "NoSuchUpload"


def conditions() -> None:
    """conditional writes, reads and deletes"""
    one = {"Bucket": BUCKET, "Key": "main/boto/once"}
    made = s3.put_object(**one, Body=b"1", IfNoneMatch="*")
    assert code_of(s3.put_object, **one, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    newer = s3.put_object(**one, Body=b"3", IfMatch=made["ETag"])
    assert code_of(s3.put_object, **one, Body=b"4", IfMatch=made["ETag"]) == "PreconditionFailed"
    assert code_of(s3.get_object, **one, IfMatch=made["ETag"]) == "PreconditionFailed"
    assert code_of(s3.get_object, **one, IfNoneMatch=newer["ETag"]) == "304"
    assert code_of(s3.delete_object, **one, IfMatch=made["ETag"]) == "PreconditionFailed"
    s3.delete_object(**one, IfMatch=newer["ETag"])


def checksums() -> None:
    """checksums: CRC32, SHA-1, SHA-256"""
    for name in ("CRC32", "SHA1", "SHA256"):
        made = s3.put_object(Bucket=BUCKET, Key=f"main/boto/{name}", Body=b"hello", ChecksumAlgorithm=name)
        assert made[f"Checksum{name}"], made
    assert (
        code_of(s3.put_object, Bucket=BUCKET, Key="main/boto/bad", Body=b"hello", ChecksumSHA256="AAAA" * 10 + "AAA=")
        == "BadDigest"
    )


def presigned() -> None:
    """presigned GET and PUT, signed by version 2 and 4"""
    for version in ("s3", "s3v4"):
        signer: Any = boto3.client(
            "s3", endpoint_url=ENDPOINT, region_name=REGION, config=Config(signature_version=version)
        )
        place = {"Bucket": BUCKET, "Key": f"main/boto/signed-{version}"}
        put = signer.generate_presigned_url("put_object", Params=place, ExpiresIn=60)
        assert urllib3.request("PUT", put, body=b"through a link").status == 200
        get = signer.generate_presigned_url("get_object", Params=place, ExpiresIn=60)
        assert urllib3.request("GET", get).data == b"through a link"


def many() -> None:
    """lists in pages and by folder, deletes of many"""
    for number in range(25):
        s3.put_object(Bucket=BUCKET, Key=f"main/boto/many/{number % 5}/{number:02d}", Body=b"")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="main/boto/many/", PaginationConfig={"PageSize": 7}
    )
    keys = [one["Key"] for page in pages for one in page["Contents"]]
    assert keys == sorted(keys)
    assert len(keys) == 25
    folders = s3.list_objects_v2(Bucket=BUCKET, Prefix="main/boto/many/", Delimiter="/")
    assert [each["Prefix"] for each in folders["CommonPrefixes"]] == [f"main/boto/many/{each}/" for each in range(5)]
    done = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys]})
    assert len(done["Deleted"]) == 25
    assert BUCKET in [each["Name"] for each in s3.list_buckets(Prefix=BUCKET[:3])["Buckets"]]


main(objects, metadata, multipart, conditions, checksums, presigned, many)
