"""Fuzzing a real server on loopback: whatever a client sends, another one is still served."""

import asyncio
import contextlib
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plumbing.wire.harness import WAIT_SECONDS, Stage

from penstock.kernel.errors import NotFound
from penstock.plumbing.wire import Channel, Server, WireLimits
from penstock.plumbing.wire.message import encode_error
from penstock.plumbing.wire.protocol.frames import HEADER_BYTES, FrameKind, encode_frame
from penstock.plumbing.wire.protocol.hello import HELLO_CODEC, WireHello

LIMITS = WireLimits(
    frame_bytes_max=100_000, stream_window_bytes=50_000, streams_max=8, requests_max=16, request_bytes_max=200_000
)
ECHO, INLINE, WAIT, STUBBORN, MIRROR, POUR, SWALLOW = range(7)


HELLO = encode_frame(FrameKind.HELLO, body=HELLO_CODEC.encode(WireHello.of(WireLimits(), None)))


def a_conversation(random: Random, *, has_streams: bool = True) -> list[bytes]:
    """Frames which a client might send. On streams it is careless: it may go on behind their end."""
    frames = []
    streams: list[int] = []
    for id in range(1, random.randrange(2, 12)):
        match random.randrange(6 if has_streams else 4):
            case 0:
                frames.append(encode_frame(FrameKind.REQUEST, method=ECHO, id=id, body=random.randbytes(100)))
            case 1:
                frames.append(encode_frame(FrameKind.REQUEST, method=INLINE, id=id, body=b"100", argument=1000))
            case 2:
                frames.append(encode_frame(FrameKind.REQUEST, method=WAIT, id=id, argument=50))
                frames.append(encode_frame(FrameKind.CANCEL, id=id))
            case 3:
                frames.append(encode_frame(FrameKind.REQUEST, method=ECHO, id=id, bulk=random.randbytes(30_000)))
            case _:
                frames.append(
                    encode_frame(FrameKind.OPEN, method=random.choice([MIRROR, POUR, SWALLOW]), id=id, body=b"9")
                )
                streams.append(id)
        for stream in streams:
            kind = random.choice(
                [
                    FrameKind.MESSAGE,
                    FrameKind.MESSAGE,
                    FrameKind.CREDIT,
                    FrameKind.END,
                    FrameKind.CANCEL,
                    FrameKind.PING,
                ]
            )
            frames.append(encode_frame(kind, id=stream, body=random.randbytes(random.randrange(50)), argument=1))
    frames.append(encode_frame(FrameKind.CLOSE, body=encode_error(NotFound("had enough"))))
    return frames


def mutate(frames: list[bytes], random: Random) -> bytes:
    """Something went wrong on the way: frames lost, doubled, swapped, cut; bytes changed, inserted, removed."""
    frames = list(frames)
    for _ in range(random.randrange(4)):
        at, other = random.randrange(len(frames)), random.randrange(len(frames))
        match random.randrange(4):
            case 0:
                frames[at] = b""
            case 1:
                frames[at] *= random.randrange(2, 5)
            case 2:
                frames[at], frames[other] = frames[other], frames[at]
            case _:
                frames[at] = frames[at][: random.randrange(len(frames[at]) + 1)]
    data = bytearray(b"".join(frames))
    for _ in range(random.randrange(6)):
        at = random.randrange(len(data) + 1)
        match random.randrange(3):
            case 0:
                data[at : at + 1] = random.randbytes(1)
            case 1:
                data[at:at] = random.randbytes(random.randrange(1, 30))
            case _:
                del data[at : at + random.randrange(1, 30)]
    return bytes(data)


async def survives(server: Server, channel: Channel, data: bytes, random: Random, *, is_welcome: bool = True) -> None:
    """Send this to the server, in pieces; it must end the connection, and go on serving the channel."""
    host, port = server.address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    if is_welcome:
        writer.write(HELLO)
        await reader.readexactly(HEADER_BYTES)
    with contextlib.suppress(ConnectionError):
        while data:
            size = random.randrange(1, len(data) + 1)
            writer.write(data[:size])
            data = data[size:]
            await writer.drain()
        writer.write_eof()
    async with asyncio.timeout(WAIT_SECONDS):
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass
    writer.close()
    assert (await channel.call("echo", b"still there")).body == b"still there"


@pytest.mark.parametrize("seed", range(4))
async def test_changed_conversations(stage: Stage, seed: int) -> None:
    server = await stage.server(limits=LIMITS)
    channel = await stage.channel(server.address)
    random = Random(seed)
    for _ in range(60):
        data = mutate(a_conversation(random), random)
        await survives(server, channel, data, random)
    statistics = server.statistics()
    assert statistics.connections_broken > 5, "some of it was bad"
    assert statistics.requests > 60, "and some of it was good"
    assert channel.statistics().connections_opened == 1


async def test_conversations_on_which_nothing_went_wrong(stage: Stage) -> None:
    server = await stage.server(limits=LIMITS)
    channel = await stage.channel(server.address)
    random = Random(11)
    for _ in range(20):
        await survives(server, channel, b"".join(a_conversation(random, has_streams=False)), random)
    assert server.statistics().connections_broken == 0
    assert server.statistics().requests > 60


def test_any_bytes_at_all() -> None:
    """Hypothesis chooses; one server lives through all of it."""
    with asyncio.Runner() as runner:
        stage = Stage()

        async def start() -> tuple[Server, Channel]:
            server = await stage.server(limits=LIMITS)
            return server, await stage.channel(server.address)

        server, channel = runner.run(start())
        header = st.builds(
            lambda length, rest: length.to_bytes(4, "little") + rest,
            st.integers(0, 300),
            st.binary(min_size=20, max_size=320),
        )
        frame = st.builds(
            lambda kind, method, id, argument, body: encode_frame(
                kind, method=method, id=id, argument=argument, body=body
            ),
            st.sampled_from(FrameKind),
            st.integers(0, 7),
            st.integers(0, 5),
            st.integers(0, 2**32 - 1),
            st.binary(max_size=100),
        )

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.booleans(), st.lists(st.one_of(frame, frame, header, st.binary(max_size=200)), max_size=12))
        def attack(is_welcome: bool, pieces: list[bytes]) -> None:
            data = b"".join(pieces)
            runner.run(survives(server, channel, data, Random(len(data)), is_welcome=is_welcome))

        attack()
        assert server.statistics().connections_broken > 0
        runner.run(stage.__aexit__(None, None, None))
