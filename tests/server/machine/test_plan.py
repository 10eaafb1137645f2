from pathlib import Path

import pytest

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config import FlagValue, load
from penstock.plumbing.config.values import Address
from penstock.server.machine.plan import MachinePlan, plan_alone, plan_member

THREE = "m1=10.0.0.1:7070,m2=10.0.0.2:7070,m3=10.0.0.3:7070"


def plan(host_name: str = "m2", **keys: str) -> MachinePlan:
    flags = [FlagValue(name.replace("__", "."), value, "--set") for name, value in keys.items()]
    return plan_member(load(flags), host_name)


def test_the_page_of_three_machines_is_enough() -> None:
    found = plan(
        cluster__members=THREE,
        cluster__zones="m1=a,m2=b,m3=c",
        cluster__keyspace="etcd://10.0.0.9:2379",
        objectstore__url="s3://shop/?region=eu",
        data__folder="/var/lib/penstock",
    )
    assert found == MachinePlan(
        name="m2",
        zone="b",
        roles=("node", "broker", "lake"),
        members={"m1": "10.0.0.1:7070", "m2": "10.0.0.2:7070", "m3": "10.0.0.3:7070"},
        folder=Path("/var/lib/penstock"),
        keyspace="etcd://10.0.0.9:2379",
        listen=Address("10.0.0.2", 7070),
        http=Address("10.0.0.2", 8000),
        metrics=Address("10.0.0.2", 9100),
        node="m2",
        broker="m2",
        fragments="s3://shop/fragments/?region=eu",
        objects="s3://shop/objects/?region=eu",
        advertise="10.0.0.2",
    )


def test_a_machine_may_listen_elsewhere_than_it_announces() -> None:
    found = plan("m1.example", cluster__members=THREE, wire__listen="0.0.0.0:7070", objectstore__url="file:///shared")
    assert (found.name, found.listen, found.advertise) == ("m1", Address("0.0.0.0", 7070), "10.0.0.1")
    assert found.http == Address("0.0.0.0", 8000)


def test_members_keep_their_own_keyspace_unless_one_is_named() -> None:
    found = plan(cluster__members=THREE, objectstore__url="file:///shared")
    assert found.keyspace == "quorum://10.0.0.1:7070,10.0.0.2:7070,10.0.0.3:7070"


def test_a_single_machine_is_that_of_up_on_fixed_ports() -> None:
    effective = load([FlagValue("data.folder", "/srv", "--set")])
    alone = plan_alone(effective.config)
    assert alone.is_alone
    assert (alone.keyspace, alone.fragments, alone.metrics) == (
        "embedded:///srv/keyspace",
        "file:///srv/fragments/",
        None,
    )
    assert plan_member(effective, "anything").metrics == Address("127.0.0.1", 9100)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"cluster__members": "m1=a:1,m1=b:1"}, "each name and address once"),
        ({"cluster__members": "m1=a:1,m2=a:1"}, "each name and address once"),
        ({"cluster__members": "m1=a:1,m2"}, "expected NAME="),
        ({"cluster__members": "m1=a:1,m2=b:1"}, "two members, which tolerate no failure"),
        ({"cluster__members": THREE, "cluster__zones": "m9=a"}, "cluster.zones names m9"),
        ({"cluster__members": THREE}, "need an object store"),
        ({"cluster__members": THREE, "server__name": "m7"}, "called m7, and cluster.members has m1, m2, m3"),
        ({"cluster__members": "m2=a:1", "server__roles": "broker,chef"}, "server.roles: chef"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(**keys)
