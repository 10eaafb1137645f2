"""The benchmark of single requests runs, and says that it had no tree before to compare with."""

from penstock_lab.bench.lake_requests import run
from penstock_lab.bench.lake_requests.load import rest_request, s3_request
from penstock_lab.bench.report import Options, RowRecorder


def test_it_measures_every_case() -> None:
    recorder = RowRecorder()
    run(recorder, Options(repeats=1, quick=True))
    assert list(recorder.missing) == ["before"]
    assert not recorder.bars
    named = {row.what.rpartition(",")[0] for row in recorder.rows}
    assert {"stat", "upload 1 KB", "S3 put 1 KB", "small merge", "uncommitted diff, 100 names"} <= named
    assert all(row.value > 0 for row in recorder.rows)


def test_requests_are_signed() -> None:
    put = s3_request("PUT", "/bench/main/a b", ("KEY", "secret"), b"x")
    assert put.startswith(b"PUT /bench/main/a%20b HTTP/1.1\r\n")
    assert b"Signature=" in put
    assert rest_request("GET", "/x", ("KEY", "secret")).endswith(b"\r\n\r\n")
