"""The answers of brokers about journals that they do not know yet."""

from pathlib import Path

from tests.journals.broker.cluster import running_cluster

from penstock.journals.broker.specs.catalog import Catalog
from penstock.journals.records.labels import LabelSelector
from penstock.journals.records.route import decoders
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.mirror import KeySpaceMirror


async def test_a_journal_which_the_mirror_has_not_heard_of_is_looked_for_in_the_keyspace(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, await EmbeddedKeySpace.open(tmp_path / "keyspace") as keyspace:
        root = cluster.config.root
        failures: list[BaseException] = []
        mirror = await KeySpaceMirror.start(keyspace, f"{root}/", decoders(root), on_failure=failures.append)
        await mirror.close()  # from now on it learns nothing
        behind = Catalog(keyspace, mirror, Layout(root), cluster.config)
        await cluster.create(JournalSpec(name="a/journal", replication=1))
        async with cluster.client() as journals:
            (made,) = await journals.list("name=a/journal")

        async def unheard(selector: str, catalog: Catalog = behind) -> Revision:
            return await catalog.unheard(LabelSelector.parse(selector))

        assert await unheard("name=a/journal") == made.mod_revision
        assert await unheard("name=a/journal", cluster.brokers["b1"].server.catalog) == 0
        assert await unheard("name=a/other") == 0
        assert await unheard("name:prefix=a/") == 0
        assert await unheard("") == 0
        assert failures == []


async def test_a_name_finds_its_journal_and_no_other(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(*(JournalSpec(name=name, replication=1) for name in ("shop/b", "shop/bc", "shop/bd/c")))
        assert [each.spec.name for each in await journals.list("name=shop/b")] == ["shop/b"]
        assert [each.spec.name for each in await journals.list("name in (shop/b, shop/bc)")] == ["shop/b", "shop/bc"]
        assert [each.spec.name for each in await journals.list("name:prefix=shop/bd/")] == ["shop/bd/c"]
        assert await journals.list("name=shop/b, region=eu") == []
        assert await journals.list("name=shop/none") == []
