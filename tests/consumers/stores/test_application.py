"""An application, and its publications."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.consumers.library import Application, Message, Publish, ShardContext, application_of
from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import JSON
from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.mapping import modulo
from penstock.messages.uuid import ProducerId, UuidRun

RUN = UuidRun(ProducerId(1), Clock(1 << 60), 1, 0)


def values(publish: Publish) -> dict[str, list[Any]]:
    return {
        each.journal: [each.framing.decode(each.framing.frames([value], RUN)) for value in each.prepared]
        for each in publish.take()
    }


def test_what_is_published_is_read_when_it_is_handed_in() -> None:
    publish = Publish()
    order = {"n": 1}
    publish("shop/a", order)
    order["n"] = 2
    publish("shop/a", order)
    publish("shop/b", ["x", "y"], framing=CSV)
    assert values(publish) == {"shop/a": [{"n": 1}, {"n": 2}], "shop/b": [["x", "y"]]}
    assert values(publish) == {}


CSV = CsvRows()


def test_a_mapping_chooses_the_journal_by_the_key() -> None:
    publish, mapping = Publish(), modulo(["shop/a", "shop/b", "shop/c"])
    for key in ("ann", "bob", "ann"):
        publish(mapping, {"key": key}, key=key)
    found = values(publish)
    assert sum(len(each) for each in found.values()) == 3
    assert found[mapping(b"ann")].count({"key": "ann"}) == 2


@pytest.mark.parametrize(
    ("to", "value"),
    [("no journal!", {}), ("shop/a", [1, 2]), ("shop/a", {"n": object()}), ("shop/a", {"_meta": {"uuid": "x"}})],
)
def test_what_cannot_be_published_is_refused_at_once(to: str, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        Publish()(to, value)


def test_a_journal_has_one_framing() -> None:
    publish = Publish()
    publish("shop/a", {})
    with pytest.raises(InvalidArgument, match="one framing"):
        publish("shop/a", ["x"], framing=CSV)


def test_functions_with_other_parameters_are_refused() -> None:
    async def generating(messages: AsyncIterator[Message]) -> AsyncIterator[tuple[str, Any]]:
        yield "shop/a", {}

    wrong: list[Any] = [lambda message: None, generating]
    for function in wrong:
        with pytest.raises(InvalidArgument, match="a consumer takes"):
            application_of(function, store=lambda context: None)  # type: ignore[arg-type, return-value]


def test_an_application_says_what_it_lacks() -> None:
    application: Application[Any] = Application()
    context = ShardContext("a", Journals(["127.0.0.1:1"]))
    with pytest.raises(ConfigError, match="define open_store"):
        application.open_store(context)
    with pytest.raises(NotImplementedError, match="define consume"):
        application.consume(None, None, Publish())  # type: ignore[arg-type]
    assert application.framing_of("shop/a") is JSON
