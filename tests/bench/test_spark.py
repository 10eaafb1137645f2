"""What `penstock bench spark` measures with: the same bytes on both sides. The benchmark itself needs a Spark."""

from penstock.bench.messages import Transfer, _journal, _transfers
from penstock.bench.spark import _cut_lines
from penstock.message.framing.json_lines import JsonLines


def test_files_have_the_journals_bytes_in_whole_lines() -> None:
    lines = _journal(JsonLines(Transfer), _transfers(300))
    parts = _cut_lines(lines, 4)
    assert b"".join(parts) == lines
    assert [part[-1:] for part in parts] == [b"\n"] * 4
    assert max(map(len, parts)) < 2 * min(map(len, parts))
