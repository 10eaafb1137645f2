from penstock_lab.bench import messages, messages_consumer, messages_recovery
from penstock_lab.bench.report import Options, RowRecorder


def test_every_side_reads_and_publishes() -> None:
    recorder = RowRecorder()
    messages.run(recorder, Options(repeats=1, quick=True))
    sides = {(row.what, row.side) for row in recorder.rows}
    json_sides = (messages.BARE, messages.ONE_BY_ONE, messages.VECTOR, messages.VECTOR_ALONE)
    assert {("committed JSON, rows out", side) for side in json_sides} <= sides
    assert ("committed Arrow, rows out", messages.ARROW) in sides
    assert ("publishing JSON", "penstock") in sides
    for side in messages_consumer.SIDES:
        assert ("end to end through one consumer: p99", side) in sides
        assert ("consumed and published again", side) in sides
    for side in (*messages_recovery.PLAYED.values(), messages_recovery.PLAIN):
        assert ("recovery", side) in sides
    assert ("a hot standby takes over", "penstock") in sides
    assert all(row.value > 0 for row in recorder.rows)
    assert [bar.name for bar in recorder.bars] == ["vector_vs_scalar", "arrow_vs_json"]
