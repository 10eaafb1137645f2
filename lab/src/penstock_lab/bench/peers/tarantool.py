"""Tarantool, three instances on loopback, a synchronous space, quorum 2, wal_mode=fsync.

Measured inside the leader, by fibers, without a client hop: that flatters it. Debian's 2.6.0 stalls in some runs
("quorum collection timed out"): the rate is taken up to the first stall, and a stall is reported.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock_lab.bench.peers.etcd import _free_ports

__all__ = ["Tarantool", "TarantoolRate", "tarantool_binary", "tarantool_cluster"]

_FOLLOWER = """
box.cfg{{listen={port}, work_dir='{folder}', wal_mode='fsync', replication={{{uris}}}, replication_connect_quorum=0,
  read_only={read_only}, replication_synchro_quorum=2, replication_synchro_timeout=2, memtx_memory=268435456,
  log='{folder}/log', log_level=2}}
"""

_LEADER = """
box.once('grants', function() box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists=true}) end)
local fiber, clock, json = require('fiber'), require('clock'), require('json')
local upstreams = function()
  local following = 0
  for _, each in pairs(box.info.replication) do
    if each.downstream ~= nil and each.downstream.status == 'follow' then following = following + 1 end
  end
  return following
end
local deadline = clock.monotonic() + 30
while upstreams() < 2 and clock.monotonic() < deadline do fiber.sleep(0.05) end
local space = box.schema.space.create('bench', {is_sync=true, if_not_exists=true})
space:create_index('primary', {if_not_exists=true, parts={{1, 'unsigned'}}})
io.write('ready\\n') io.flush()
local next_key = 0
while true do
  local line = io.read('*l')
  if line == nil then os.exit(0) end
  local order = json.decode(line)
  local done, stalled_at, finished = 0, nil, 0
  local value = string.rep('x', order.bytes)
  local started = clock.monotonic()
  local ends = started + order.seconds
  for _ = 1, order.in_flight do
    fiber.create(function()
      while clock.monotonic() < ends and stalled_at == nil do
        next_key = next_key + 1
        local ok = pcall(space.insert, space, {next_key, value})
        if ok then done = done + 1 elseif stalled_at == nil then stalled_at = clock.monotonic() end
      end
      finished = finished + 1
    end)
  end
  while finished < order.in_flight do fiber.sleep(0.005) end
  local took = (stalled_at or clock.monotonic()) - started
  if stalled_at ~= nil then took = math.max(took - 2, 0.001) end
  io.write(json.encode({done=done, seconds=took, stalled=stalled_at ~= nil}), '\\n') io.flush()
end
"""


class TarantoolRate(msgspec.Struct, frozen=True):
    """What one run inside Tarantool came to."""

    done: int
    seconds: float
    stalled: bool

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


class Tarantool:
    """A running cluster, driven through its leader's standard input."""

    def __init__(self, leader: "subprocess.Popen[str]") -> None:
        self._leader = leader
        self.stalls = 0

    def inserts_per_second(self, in_flight: int, seconds: float, value_bytes: int) -> float:
        assert self._leader.stdin is not None
        assert self._leader.stdout is not None
        order = {"in_flight": in_flight, "seconds": seconds, "bytes": value_bytes}
        self._leader.stdin.write(json.dumps(order) + "\n")
        self._leader.stdin.flush()
        rate = msgspec.json.decode(self._leader.stdout.readline(), type=TarantoolRate)
        self.stalls += rate.stalled
        return rate.per_second


def tarantool_binary() -> str | None:
    return shutil.which("tarantool")


@contextmanager
def tarantool_cluster(folder: Path) -> Iterator[Tarantool]:
    """Three instances which end with the block. The first leads: there is no election."""
    binary = tarantool_binary()
    assert binary is not None, "ask tarantool_binary() first"
    ports = _free_ports(3)
    uris = ",".join(f"'127.0.0.1:{port}'" for port in ports)
    processes: list[subprocess.Popen[str]] = []
    try:
        for number, port in enumerate(ports):
            home = folder / f"tarantool{number}"
            home.mkdir(parents=True)
            is_leader = number == 0
            script = _FOLLOWER.format(port=port, folder=home, uris=uris, read_only="false" if is_leader else "true")
            path = home / "start.lua"
            path.write_text(script + (_LEADER if is_leader else ""))
            processes.append(_start([binary, str(path)]))
        leader = processes[0]
        assert leader.stdout is not None
        line = leader.stdout.readline()
        if line.strip() != "ready":
            raise RuntimeError(f"tarantool did not start: {line!r}")
        yield Tarantool(leader)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _start(command: list[str]) -> Any:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
