"""Traces: the examples of specs/examples, read, written as TLA+, accepted, and rejected at the right line."""

import pytest
from tests.specs.tlc import SPECS, Tlc
from tests.specs.trace import TraceError, main, module, parse, validate

EXAMPLES = SPECS / "examples"
HEADER = '{"nodes": ["A", "B"], "ensemble": ["A"]}'


def example(name: str) -> list[str]:
    return (EXAMPLES / f"{name}.jsonl").read_text().splitlines()


@pytest.mark.parametrize("name", ["steady", "swap"])
def test_a_right_trace_is_accepted(tlc: Tlc, name: str) -> None:
    assert validate(tlc, parse(example(name))) is None


def leads_again() -> list[str]:
    """The leader of `steady`, restarted in the last line, shows itself as it was before."""
    lines = example("steady")
    return [*lines, [line for line in lines if '"LEADER"' in line][-1]]


def answered_early() -> list[str]:
    """The client of `steady` is told before its transaction is committed."""
    lines = example("steady")
    answer = next(line for line in lines if "answer" in line)
    lines.remove(answer)
    lines.insert(8, answer)
    return lines


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        pytest.param(example("broken-commit"), 9, id="a commit which only the leader holds"),
        pytest.param(example("broken-swap"), 15, id="a switch before COMMIT is written"),
        pytest.param(leads_again(), 13, id="a leader after its restart"),
        pytest.param(answered_early(), 9, id="an answer before its commit"),
    ],
)
def test_a_wrong_trace_is_rejected_at_the_wrong_step(tlc: Tlc, lines: list[str], number: int) -> None:
    rejection = validate(tlc, parse(lines))
    assert rejection is not None
    assert (rejection.number, rejection.text) == (number, lines[number - 1])
    assert f"matched = {number - 2}" in rejection.state
    assert str(rejection).startswith(f"line {number} is no step")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no header"),
        (['{"nodes": ["A"]}'], "line 1: .*ensemble"),
        ([HEADER, "{"], "line 2: "),
        ([HEADER, "{}"], "line 2: exactly one"),
        ([HEADER, '{"node": {"name": "A", "epoch": 1, "role": "KING", "durable": 0}}'], "line 2: .*KING"),
        ([HEADER, '{"node": {"name": "C", "epoch": 1, "role": "FENCED", "durable": 0}}'], "not in the header: C"),
        ([HEADER, '{"node": {"name": "A", "epoch": 1, "role": "FENCED", "durable": 0, "x": 1}}'], "unknown field"),
    ],
)
def test_lines_which_are_no_trace(lines: list[str], why: str) -> None:
    with pytest.raises(TraceError, match=why):
        parse(lines)


def test_a_log_is_written_as_what_is_new() -> None:
    log = '[[1, "BARRIER", 0], [1, "SYNC", "x"]]'
    longer = '[[1, "SYNC", "x"], [1, "ASYNC", "y"]]'
    shown = '{"node": {"name": "A", "epoch": 1, "role": "FOLLOWER", "durable": %d, "log": %s, "first": %d}}'
    written = module(parse([HEADER, shown % (2, log, 1), shown % (2, log, 1), shown % (3, longer, 2)]), 3)
    logs = [line for line in written.splitlines() if line.startswith("L")]
    assert logs == [
        "L0 == <<>>",
        'L1 == <<>> \\o <<Entry(1, "BARRIER", 0), Entry(1, "SYNC", 1)>>',
        'L2 == SubSeq(L1, 2, 2) \\o <<Entry(1, "ASYNC", 2)>>',
    ]


@pytest.mark.usefixtures("tlc")
def test_the_command_tells_of_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "steady.jsonl"
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: accepted\n"
