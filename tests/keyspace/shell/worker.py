"""A process of its own which uses an embedded KeySpace, for tests that kill, stop and wake real processes.

python worker.py write FOLDER NAME        puts pairs of keys for ever; a line for each that was acknowledged
python worker.py hold FOLDER NAME MS      holds a key under a lease; ends with a line when the lease is lost
python worker.py put FOLDER KEY           puts the key for every line it reads; a line for each
"""

import asyncio
import sys

import structlog

from penstock.keyspace.core.transaction import PutKey, is_absent
from penstock.keyspace.shell import KeySpace, LeaseKeeper, open_keyspace
from penstock.plumbing.ports.ports import system_ports


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def write(keyspace: KeySpace, name: str) -> None:
    """Both keys of a pair in one transaction. Where an earlier life stopped does not matter: it continues after
    that.
    """
    number = len((await keyspace.range(f"{name}/a/")).entries)
    while True:
        keys = f"{name}/a/{number:06}", f"{name}/b/{number:06}"
        outcome = await keyspace.transact([is_absent(keys[0])], [PutKey(key, b"x" * 500) for key in keys])
        assert outcome.succeeded
        say(f"{number} {outcome.revision}")
        number += 1


async def hold(keyspace: KeySpace, key: str, ttl_ms: int) -> None:
    lost = asyncio.Event()
    reasons: list[str] = []

    def on_lease_lost(reason: str) -> None:
        reasons.append(reason)
        lost.set()

    keeper = await LeaseKeeper.start(keyspace, ttl_ms, on_lease_lost, system_ports().clock.boot_ns)
    await keyspace.transact(then=[PutKey(key, b"", keeper.id)])
    say("holding")
    await lost.wait()
    await keeper.close()
    say(f"lost: {reasons}")


async def put(keyspace: KeySpace, key: str) -> None:
    while await asyncio.to_thread(sys.stdin.readline):
        await keyspace.transact(then=[PutKey(key, b"")])
        say("put")


async def main(what: str, url: str, *arguments: str) -> None:
    async with await open_keyspace(url) as keyspace:
        match what:
            case "write":
                await write(keyspace, arguments[0])
            case "hold":
                await hold(keyspace, arguments[0], int(arguments[1]))
            case "put":
                await put(keyspace, arguments[0])
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for what the test reads
    asyncio.run(main(*sys.argv[1:]))
