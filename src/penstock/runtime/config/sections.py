"""The configuration: every section and key there is, each declared once with its meaning, default and limits.

A section is a table of the TOML file (`[wire]`), its keys are `wire.listen` on the command line and
`PENSTOCK_WIRE_LISTEN` in the environment. All of it is frozen: a process keeps the configuration it started with.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from penstock.runtime.config.declare import Declaration, Key, declarations
from penstock.runtime.config.secret import Secret
from penstock.runtime.config.values import Address, Bytes, Seconds

__all__ = ["Config", "Data", "Log", "Metrics", "ObjectStore", "Tls", "Wal", "Wire", "known_keys"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


class Data(msgspec.Struct, frozen=True):
    """Where a process keeps what must survive it."""

    folder: Annotated[Path, Key("The data folder: WALs, spools, and the object store unless another is named.")] = Path(
        "penstock-data"
    )


class Log(msgspec.Struct, frozen=True):
    """What a process says about itself, always on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Key("The least severe event that is logged.")] = (
        "info"
    )
    format: Annotated[
        Literal["auto", "console", "json"],
        Key("How an event is written; auto is console on a terminal, and json where a program reads."),
    ] = "auto"


class Metrics(msgspec.Struct, frozen=True):
    """The Prometheus endpoint: /metrics and /healthz over HTTP."""

    listen: Annotated[
        Address | None,
        Key(
            "Where the endpoint listens. Empty: no endpoint. It has no authentication, so keep it on a private address."
        ),
    ] = None


class Wire(msgspec.Struct, frozen=True):
    """Connections between our own processes, and from our own client."""

    listen: Annotated[Address, Key("Where the server listens.")] = Address("127.0.0.1", 7070)
    token: Annotated[Secret | None, Key("The token a client must show, and ours shows. Empty: none is asked for.")] = (
        None
    )
    frame_bytes_max: Annotated[
        Bytes, Key("The largest frame a peer may send; above it, its connection is closed.", 64 * KIB, 64 * MIB)
    ] = Bytes(1 * MIB)
    streams_max: Annotated[int, Key("Requests and streams a peer may have open on one connection.", 1, 65535)] = 1024
    connect_timeout: Annotated[Seconds, Key("How long a connection attempt may take, hello included.", 0.01, 300)] = (
        Seconds(5)
    )
    keepalive: Annotated[
        Seconds, Key("How long a connection may be silent before it is asked for a sign of life.", 0.1, 3600)
    ] = Seconds(15)
    backoff_max: Annotated[Seconds, Key("The longest pause between two attempts to connect again.", 0.01, 3600)] = (
        Seconds(5)
    )


class Tls(msgspec.Struct, frozen=True):
    """TLS of the wire. With a certificate, a server speaks TLS only; with an authority, a client does."""

    certificate: Annotated[Path | None, Key("Our certificate chain, as a PEM file. Empty: no TLS.")] = None
    key: Annotated[Path | None, Key("The certificate's private key, as a PEM file.")] = None
    authority: Annotated[
        Path | None, Key("Whom we trust to sign the other side's certificate, as a PEM file. Empty: nobody.")
    ] = None
    verify_client: Annotated[
        bool, Key("Whether a server also asks clients for a certificate signed by the authority.")
    ] = False


class Wal(msgspec.Struct, frozen=True):
    """The write-ahead log under every durable machine."""

    segment_bytes: Annotated[Bytes, Key("How large a segment file is preallocated.", 64 * KIB, 4 * GIB)] = Bytes(
        64 * MIB
    )
    batch_bytes_max: Annotated[
        Bytes, Key("How much one group commit writes at most before its fdatasync.", 4 * KIB, 256 * MIB)
    ] = Bytes(4 * MIB)


class ObjectStore(msgspec.Struct, frozen=True):
    """Where fragments and the lake's objects are kept."""

    url: Annotated[
        str, Key("file:///path, s3://bucket/prefix, gs://…, az://… or memory://. Empty: a folder in the data folder.")
    ] = ""
    endpoint: Annotated[str, Key("The address of an S3-compatible service. Empty: the provider's own.")] = ""
    region: Annotated[str, Key("The bucket's region. Empty: what the provider's own tools would use.")] = ""
    access_key: Annotated[Secret | None, Key("The key's id. Empty: the provider's usual environment is asked.")] = None
    secret_key: Annotated[Secret | None, Key("The key itself.")] = None


class Config(msgspec.Struct, frozen=True):
    """All of it."""

    data: Data = Data()
    log: Log = Log()
    metrics: Metrics = Metrics()
    wire: Wire = Wire()
    tls: Tls = Tls()
    wal: Wal = Wal()
    objectstore: ObjectStore = ObjectStore()


@cache
def known_keys() -> dict[str, Declaration]:
    """Every key by its dotted name."""
    return declarations(Config)
