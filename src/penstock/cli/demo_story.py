"""The demo's story: writers which never stop, faults which strike, and an audit of every answer they got."""

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from penstock.base.errors import Indeterminate, NotFound, PenstockError, PreconditionFailed, Unavailable
from penstock.client.operator import Operators
from penstock.client.quorum import QuorumLog
from penstock.quorum.metadata import Metadata, Status
from penstock.runtime.cluster.local import LocalCluster
from penstock.runtime.quorum.machines import AppendTo, Get, encode_op

__all__ = ["Audit", "Fault", "Story"]

READY_S = 60.0
PAUSE_S = 2.0
RESTART_S = 1.0


class Fault(msgspec.Struct, frozen=True):
    """A blow, and whom it hits."""

    what: str
    how: Literal["kill", "pause"]
    target: Literal["leader", "follower", "operator"]


class Audit(msgspec.Struct, frozen=True):
    """What was promised, and what is there."""

    acknowledged: int
    unknown: int
    found: int
    lost: int
    doubled: int
    out_of_order: int
    replicas_agree: bool
    leaders: int
    longest_silence_ms: int
    faults: int

    @property
    def is_clean(self) -> bool:
        return self.replicas_agree and not (self.lost or self.doubled or self.out_of_order)

    def verdict(self) -> str:
        return (
            "Every acknowledged record is there, once, in order." if self.is_clean else "SOMETHING WAS LOST: a defect."
        )

    def as_data(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "ok": self.is_clean}

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("records acknowledged", f"{self.acknowledged:,}"),
            ("records with unknown outcome", f"{self.unknown:,}"),
            ("records found", f"{self.found:,}"),
            ("lost", f"{self.lost:,}"),
            ("doubled", f"{self.doubled:,}"),
            ("out of order", f"{self.out_of_order:,}"),
            ("replicas agree", "yes" if self.replicas_agree else "NO"),
            ("faults", f"{self.faults:,}"),
            ("leaders on the way", f"{self.leaders:,}"),
            ("longest time without an answer", f"{self.longest_silence_ms:,} ms"),
        ]


class Story:
    """One run of the demo."""

    def __init__(
        self,
        cluster: LocalCluster,
        say: Callable[[str], None],
        *,
        writers: int,
        seconds: float,
        faults: Sequence[Fault],
    ) -> None:
        self._cluster = cluster
        self._say = say
        self._seconds = seconds
        self._faults = faults
        self._acknowledged: list[int] = [0] * writers  # per writer: so many records, from 0 on
        self._unknown: list[int] = [0] * writers
        self._silence_s = 0.0
        self._last_answer = 0.0
        self._epochs: dict[int, str] = {}

    async def begin(self) -> None:
        """Wait until the shard has a leader."""
        self._say(f"starting 3 nodes and an operator in {self._cluster.folder} …")
        metadata = await self._metadata(READY_S)
        self._say(f"{metadata.leader.node if metadata.leader else '?'} leads; {len(self._acknowledged)} writers begin")

    async def run(self) -> None:
        """Writers and faults side by side."""
        self._last_answer = time.monotonic()
        end = self._last_answer + self._seconds
        await asyncio.gather(
            *(self._write(number, end) for number in range(len(self._acknowledged))), self._strike(), self._tell(end)
        )

    async def _write(self, number: int, end: float) -> None:
        """Append records 0, 1, 2 …: the next one only when the one before is acknowledged."""
        async with QuorumLog(self._cluster.addresses("node"), self._cluster.plan.shard) as log:
            while time.monotonic() < end:
                record = b"%08d" % self._acknowledged[number]
                seq = log.next_seq()
                self._unknown[number] = 1
                while True:
                    try:
                        await log.append(encode_op(AppendTo(f"writer{number}", record)), seq=seq, timeout=5.0)
                        break
                    except (Indeterminate, Unavailable):
                        continue  # the same seq again: it takes effect once
                self._answered(number)

    def _answered(self, number: int) -> None:
        now = time.monotonic()
        self._silence_s = max(self._silence_s, now - self._last_answer)
        self._last_answer = now
        self._acknowledged[number] += 1
        self._unknown[number] = 0

    async def _strike(self) -> None:
        gap_s = self._seconds / (len(self._faults) + 1)
        for fault in self._faults:
            await asyncio.sleep(max(0.1, gap_s - PAUSE_S))
            name = await self._name_of(fault.target)
            self._say(f"  {fault.what}: {name}")
            if fault.how == "kill":
                self._cluster.kill(name)
                await asyncio.sleep(RESTART_S)
                self._cluster.start(name)
            else:
                self._cluster.kill(name, signal.SIGSTOP)
                await asyncio.sleep(PAUSE_S)
                self._cluster.kill(name, signal.SIGCONT)

    async def _tell(self, end: float) -> None:
        last = 0
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(2.0, left))
            done = sum(self._acknowledged)
            metadata = await self._metadata(READY_S, is_steady=False)
            leader = metadata.leader.node if metadata.leader is not None else "nobody"
            self._say(f"{done:9,} acknowledged, {(done - last) / 2:7,.0f}/s, epoch {metadata.epoch}, {leader} leads")
            last = done

    async def audit(self) -> Audit:
        """Read every writer's list back, and compare the replicas."""
        self._say("audit: reading every record back …")
        lost = doubled = out_of_order = found = 0
        async with QuorumLog(self._cluster.addresses("node"), self._cluster.plan.shard) as log:
            for number, acknowledged in enumerate(self._acknowledged):
                value = (await log.read(encode_op(Get(f"writer{number}")), timeout=READY_S)).result or b""
                records = [int(value[at : at + 8]) for at in range(0, len(value), 8)]
                found += len(records)
                lost += len(set(range(acknowledged)) - set(records))
                doubled += len(records) - len(set(records))
                out_of_order += records != sorted(records)
            agree = await self._replicas_agree(log)
        await self._metadata(READY_S)
        return Audit(
            sum(self._acknowledged), sum(self._unknown), found, lost, doubled, out_of_order, agree,
            len(self._epochs), int(self._silence_s * 1000), len(self._faults),
        )  # fmt: skip

    async def _replicas_agree(self, log: QuorumLog) -> bool:
        """Nobody writes any more: soon all three must have the same checksum over everything they applied."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            answers = [answer for answer in (await log.status()).values() if not isinstance(answer, PenstockError)]
            replicas = [each for answer in answers for each, _ in answer]
            if any(each.diverged for each in replicas):
                return False
            if len(replicas) == 3 and len({each.checksum for each in replicas}) == 1:
                return True
            await asyncio.sleep(0.1)
        return False

    def remove_folder(self) -> None:
        shutil.rmtree(self._cluster.folder, ignore_errors=True)

    async def _metadata(self, seconds: float, *, is_steady: bool = True) -> Metadata:
        """The shard's metadata, made if there is none; with `is_steady`, as soon as somebody leads."""
        deadline = time.monotonic() + seconds
        plan = self._cluster.plan
        while time.monotonic() < deadline:
            try:
                async with Operators(self._cluster.addresses("operator")) as operators:
                    shards = (await operators.status()).shards
                    if plan.shard not in shards:
                        await operators.create(plan.shard, self._cluster.names("node"))
                    metadata = shards.get(plan.shard, (None, ""))[0]
            except (Unavailable, Indeterminate, NotFound, PreconditionFailed):
                metadata = None  # still coming up, or struck down
            if metadata is not None and (metadata.status is Status.STEADY_STATE or not is_steady):
                if metadata.leader is not None:
                    self._epochs[metadata.epoch] = metadata.leader.node
                return metadata
            await asyncio.sleep(0.1)
        raise Unavailable("no leader in time", next_step=f"look into the log files in {self._cluster.folder}")

    async def _name_of(self, target: str) -> str:
        if target == "operator":
            return self._cluster.names("operator")[0]
        metadata = await self._metadata(READY_S)
        assert metadata.leader is not None
        if target == "leader":
            return metadata.leader.node
        return next(member.node for member in metadata.ensemble if member != metadata.leader)
