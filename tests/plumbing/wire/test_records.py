import msgspec
import pytest
from tests.plumbing.wire.harness import Stage

from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame, NotFound
from penstock.plumbing.wire import RecordMethod, Service, WireCall


class Ask(msgspec.Struct, tag=True, frozen=True):
    name: str


class Found(msgspec.Struct, tag=True, frozen=True):
    name: str
    peer: str


class Lost(msgspec.Struct, tag=True, frozen=True):
    pass


LOOK = RecordMethod[Ask, Found | Lost]("look", Codec[Ask](Ask), Codec[Found | Lost](Found | Lost))


async def test_records_go_there_and_come_back(stage: Stage) -> None:
    service = Service()

    @LOOK.serve(service)
    async def look(request: Ask, call: WireCall) -> Found | Lost:
        if request.name == "forbidden":
            raise NotFound("not here")
        return Found(request.name, call.method) if request.name else Lost()

    server = await stage.server(service)
    channel = await stage.channel(server.address)
    assert await LOOK.call(channel, Ask("key")) == Found("key", "look")
    assert await LOOK.call(channel, Ask(""), deadline_s=5.0) == Lost()
    with pytest.raises(NotFound):
        await LOOK.call(channel, Ask("forbidden"))
    with pytest.raises(MalformedFrame, match="not a record"):
        await channel.call("look", b"\xc1")
