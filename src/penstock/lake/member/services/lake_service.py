"""The lake's service on one member: `service.Lake`, put together from its parts.

async with serving_lake(QuorumQueue(log), store, "file:///data/objects", secret="...") as lake: ...
"""

import asyncio
import copy
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from penstock.lake.core.staging.proposing.member import MemberConfig
from penstock.lake.member.builder import LakeBuilder
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.committed import TreeOptions
from penstock.lake.member.engine import Engine, Host
from penstock.lake.member.garbage.garbage_roots import GarbageRoots
from penstock.lake.member.garbage.garbage_service import GarbageCollector
from penstock.lake.member.garbage.retention_service import Retention
from penstock.lake.member.member_host import MemberHost
from penstock.lake.member.queue import Queue
from penstock.lake.member.samples import sample_objects
from penstock.lake.member.services.grafts_service import Grafts
from penstock.lake.member.services.imports_service import Imports
from penstock.lake.member.services.names_service import Names
from penstock.lake.member.services.objects import Objects
from penstock.lake.member.services.parts_service import PartUploads
from penstock.lake.member.services.scratch import sweeping
from penstock.lake.member.services.sinks_service import Sinks
from penstock.lake.member.services.uploads import LinkSigner
from penstock.lake.member.shelves import Shelves
from penstock.lake.records.service import Repository
from penstock.plumbing.objects import ObjectStore
from penstock.plumbing.ports.ports import Ports, system_ports

__all__ = ["LakeService", "serving_lake"]

TREE_CACHE_BYTES: Final = 64 << 20  # of each repository


class LakeService(Names, Objects, PartUploads, Imports, Sinks, Grafts, GarbageCollector, GarbageRoots, Retention):
    """Everything `service.Lake` promises, through one member."""

    def __init__(self, host: Host, shelves: Shelves, builder: LakeBuilder, *, secret: str, store_url: str) -> None:
        self.engine = Engine(host, shelves, builder)
        self.signer = LinkSigner(secret)
        self.store_url = store_url.partition("?")[0] if store_url.startswith("file:") else store_url
        self._imports = OrderedDict()

    async def create_repository(
        self,
        name: str,
        *,
        storage: str = "",
        default_branch: str = "main",
        is_read_only: bool = False,
        with_samples: bool = False,
    ) -> Repository:
        made = await super().create_repository(
            name, storage=storage, default_branch=default_branch, is_read_only=is_read_only
        )
        if with_samples:
            filling = self.asked_by(force=True)
            for path, content, content_type in sample_objects():
                await filling.put(name, default_branch, path, content, content_type=content_type)
            await filling.commit(name, default_branch, "Add sample data")
        return made

    def asked_by(self, user: str | None = None, *, force: bool = False) -> "LakeService":
        """Return the same service for a user, who commits; with `force`, read-only repositories take its changes."""
        other = copy.copy(self)
        if user is not None:
            other.user = user
        if force:
            other.engine = self.engine.forced()
        return other

    @property
    def store(self) -> ObjectStore:
        return self.engine.shelves.store


@asynccontextmanager
async def serving_lake(
    queue: Queue,
    store: ObjectStore,
    store_url: str,
    *,
    secret: str,
    shard: str = "main",
    name: str = "",
    config: MemberConfig | None = None,
    checkpoint_span: int | None = None,
    options: TreeOptions | None = None,
    ports: Ports | None = None,
) -> AsyncIterator[LakeService]:
    """A member which has played back the queue, as a service. The queue is closed with it."""
    ports = ports or system_ports()
    builder = LakeBuilder()
    shelves = Shelves(store, store_url, options or TreeOptions(cache_bytes_max=TREE_CACHE_BYTES), ports=ports)
    checkpoints = Checkpoints(store, f"_penstock/lake/{shard}/")
    host = await MemberHost.start(
        queue,
        checkpoints,
        builder,
        name=name or f"{socket.gethostname()}-{ports.chance.token(4).hex()}",
        config=config,
        checkpoint_span=checkpoint_span,
        ports=ports,
    )
    service = LakeService(host, shelves, builder, secret=secret, store_url=store_url)
    sweep = asyncio.create_task(sweeping(store, ports.clock), name="lake scratch")
    try:
        yield service
    finally:
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)
        await service.end_imports()
        await host.close()
        await queue.close()
        await shelves.close()
