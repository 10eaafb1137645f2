"""`penstock lake recover`: a new queue from the newest checkpoint of one that is lost."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from penstock.cli.lake.lake_targets import when
from penstock.cli.noun import InSession
from penstock.server.output import counted
from penstock.server.targets import Shard

__all__ = ["recover"]


async def recover(
    *,
    shard: Shard = "main",
    into: Annotated[
        str,
        Parameter(
            help="The new queue: a shard or a journal that was never used. The same name as --shard is right where the "
            "quorum log itself was made again.",
            metavar="NAME",
        ),
    ],
    session: InSession,
) -> None:
    """Begin a new queue with the newest checkpoint of one that is lost, and name what may be missing.

    Stop all members of the lake first. Changes after the checkpoint are lost with the queue. Commits among them are
    still in the store: a hard reset brings a branch to one.
    """
    from penstock.plumbing.objects import open_store
    from penstock.plumbing.wiring.options import object_store_url, store_options
    from penstock.server.lake_recovery import recover as begin_again

    config = session.effective.config
    url = object_store_url(config)
    async with open_store(url, store_options(config.objectstore)) as store:
        found = await begin_again(store, url, shard, into)
    lines = [
        f"queue {found.queue} begins at position {found.position} with {counted(found.repositories, 'repository')}, "
        f"{counted(found.branches, 'branch')}",
        f"missing: all changes after {when(int(found.taken_at))}",
        f"uploaded after that: {counted(found.late_objects, 'object')}",
        *(f"unreadable: {each}" for each in found.unreadable),
        *(f"lost: the commit of {each} is not in the store" for each in found.lost_heads),
        *(f"made after that: lake://{each.repository}@{each.commit} {each.message}" for each in found.late_commits),
        f"start the members with --shard {found.queue}" if found.queue != shard else "start the members again",
    ]
    session.emit(msgspec.to_builtins(found), "\n".join(lines))
