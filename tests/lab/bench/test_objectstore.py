from penstock_lab.bench import objectstore
from penstock_lab.bench.report import Options, RowRecorder


def test_every_side_puts_and_gets_every_size() -> None:
    recorder = RowRecorder()
    objectstore.run(recorder, Options(repeats=1, quick=True))
    measured = {(row.what, row.side, row.params["size"], row.params["in_flight"]) for row in recorder.rows}
    cases = [("4 KiB", 1), ("4 KiB", 8), ("1 MiB", 1), ("2 MiB", 1)]
    puts = {("put", side, *case) for side in ["penstock", "durable files", "files", "obstore"] for case in cases}
    gets = {("get", side, *case) for side in ["penstock", "files", "obstore"] for case in cases}
    assert measured == puts | gets
    assert all(row.value > 0 for row in recorder.rows)
