"""The schedule of M-4: a source that a definition leaves out for a while is not consumed again."""

from contextlib import nullcontext

import msgspec

from penstock.consumers.client.definition import ShardDefinition
from penstock_lab.world.consumers.mutants import SCHEDULED
from penstock_lab.world.consumers.run import ask_consumers
from penstock_lab.world.consumers.site import ConsumersSettings, ConsumersSite
from penstock_lab.world.guard import guarded
from penstock_lab.world.mutants import broken
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

SOURCES = ("shop/orders/0", "shop/orders/1")
SHARD = ShardDefinition(id="shard", sources=dict.fromkeys(SOURCES, 0), max_txn_ms=100)
SETTINGS = ConsumersSettings(
    brokers=1,
    workers=1,
    publishers=1,
    shards=(SHARD,),
    sources=SOURCES,
    pause_s=0.05,
    messages=60,
    lease_ms=3_000,
    database_trouble="",
)


def a_source_comes_back(mutant: str | None) -> str | None:
    """Consume two sources, then one, then both again; return the broken rule."""
    world = World(1)
    try:
        with broken(SCHEDULED[mutant]) if mutant else nullcontext(), telling(world), guarded(world):
            site = ConsumersSite(world, SETTINGS)
            site.scene.run(3.0)
            site.define(msgspec.structs.replace(SHARD, sources={SOURCES[0]: 0}))
            site.scene.run(3.0)
            site.define(SHARD)
            site.scene.run(4.0)
            site.is_over = True
            site.scene.calm()
            ask_consumers(site)
            world.check()
            assert len(site.published) == SETTINGS.messages
    except WorldFailed:
        pass
    finally:
        world.end()
    return world.failure


def test_a_source_that_comes_back_is_not_consumed_again() -> None:
    assert a_source_comes_back(None) is None


def test_a_checkpoint_that_forgets_is_caught() -> None:
    failure = a_source_comes_back("forgets-sources")
    assert failure is not None
    assert "E7: message" in failure
