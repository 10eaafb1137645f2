"""The endpoints of an etcd cluster: one channel each, one of them in use, the next one after a failure."""

import asyncio
from typing import Final

import grpc
import grpc.aio

from penstock.kernel.errors import AlreadyClosed, ConfigError, ConnectFailed, InvalidArgument
from penstock.keyspace.shell.etcd.options import EtcdOptions

__all__ = ["Endpoints"]

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),  # bounded by the pages and fragments we ask for
    ("grpc.max_send_message_length", -1),  # bounded by our own limits
    ("grpc.keepalive_time_ms", 10_000),  # etcd refuses pings more often than every 5 s
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


class Endpoints:
    """Where to call. All calls go to one endpoint until it fails."""

    def __init__(self, addresses: list[str], options: EtcdOptions) -> None:
        if not addresses:
            raise InvalidArgument("an etcd cluster has at least one endpoint")
        self._addresses = addresses
        self._connect_s_max = options.connect_ms_max / 1000
        self._credentials = _credentials(options)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._current = 0
        self.is_closed = False

    async def connected(self) -> tuple[grpc.aio.Channel, int]:
        """A channel which is connected, and its number. Raise ConnectFailed if no endpoint is to be had in time."""
        share_s = self._connect_s_max / len(self._addresses)
        for _ in self._addresses:
            if self.is_closed:
                raise AlreadyClosed("the KeySpace is closed")
            number = self._current
            channel = self._channel(number)
            try:
                async with asyncio.timeout(share_s):
                    await channel.channel_ready()
                return channel, number
            except TimeoutError:
                self.failed(number)
        raise ConnectFailed(f"no etcd at {', '.join(self._addresses)}", next_step="etcdctl endpoint status")

    def failed(self, number: int) -> None:
        """Switch to the next endpoint, unless another call did so already."""
        if number == self._current:
            self._current = (number + 1) % len(self._addresses)

    async def close(self) -> None:
        self.is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def _channel(self, number: int) -> grpc.aio.Channel:
        address = self._addresses[number]
        if address not in self._channels:
            self._channels[address] = (
                grpc.aio.insecure_channel(address, options=_OPTIONS)
                if self._credentials is None
                else grpc.aio.secure_channel(address, self._credentials, options=_OPTIONS)
            )
        return self._channels[address]


def _credentials(options: EtcdOptions) -> grpc.ChannelCredentials | None:
    if options.authority is None:
        return None
    try:
        ca, key, cert = (
            None if path is None else path.read_bytes()
            for path in (options.authority, options.key, options.certificate)
        )
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
    return grpc.ssl_channel_credentials(ca, key, cert)
