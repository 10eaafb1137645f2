"""The trace's digest: one run, one digest."""

from penstock_lab.sim.trace import Trace


def test_equal_histories_have_equal_digests_and_others_do_not() -> None:
    def digest(*whats: str) -> str:
        trace = Trace()
        for now, what in enumerate(whats):
            trace.add(now, "a", "<", what)
        return trace.digest()

    assert digest("x", "y") == digest("x", "y")
    assert digest("x", "y") != digest("y", "x")
    assert digest(*["x"] * 1200) != digest(*["x"] * 1201)


def test_lines_read_like_a_transcript() -> None:
    trace = Trace(keep=True)
    trace.add(1_500_000, "a", "<", "Persisted(lsn=3)")
    assert trace.lines == ["    1.500000 a        < Persisted(lsn=3)"]


def test_kept_lines_are_bounded() -> None:
    trace = Trace(keep=True, lines_max=10)
    for now in range(100):
        trace.add(now, "a", "<", "x")
    assert (len(trace.lines), trace.steps) == (10, 100)
