"""The configuration: every section and key there is, each declared once with its meaning, default and limits.

A section is a table of the TOML file (`[wire]`), its keys are `wire.listen` on the command line and
`PENSTOCK_WIRE_LISTEN` in the environment. All of it is frozen: a process keeps the configuration it started with.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from penstock.plumbing.config.declare import Declaration, Key, declarations
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.config.values import Address, Bytes, Names, Seconds, Table

__all__ = [
    "BrokerBounds",
    "Cluster",
    "Config",
    "Data",
    "LakeSection",
    "LogSection",
    "Metrics",
    "ObjectStoreSection",
    "Pipelines",
    "ServerRoles",
    "Stores",
    "TlsSection",
    "WalSection",
    "Wire",
    "known_keys",
]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SHORT = (0.001, 600.0)  # the limits of a wait that a user notices
LONG = (0.001, 86400.0)  # the limits of a wait in the background


class Data(msgspec.Struct, frozen=True):
    """Where a process keeps what must survive it."""

    folder: Annotated[Path, Key("The data folder: WALs, spools, and the object store unless another is named.")] = Path(
        "penstock-data"
    )


class LogSection(msgspec.Struct, frozen=True):
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
    token: Annotated[Secret | None, Key("The token clients must show, and ours shows. Empty: none is asked for.")] = (
        None
    )
    frame_bytes_max: Annotated[
        Bytes, Key("The largest frame a peer may send; above it, its connection is closed.", 4 * KIB, GIB)
    ] = Bytes(4 * MIB)
    stream_window_bytes: Annotated[
        Bytes, Key("How much one stream may hold unread; also the largest message on a stream.", 4 * KIB, GIB)
    ] = Bytes(1 * MIB)
    streams_max: Annotated[int, Key("Open streams per connection.", 1, 1_000_000)] = 256
    requests_max: Annotated[int, Key("Unary requests in flight per connection.", 1, 1_000_000)] = 4096
    request_bytes_max: Annotated[
        Bytes, Key("Bytes of all unary requests in flight per connection.", 4 * KIB, 64 * GIB)
    ] = Bytes(64 * MIB)
    connections_max: Annotated[int, Key("Connections a server holds at once.", 1, 1_000_000)] = 1024
    waiting_max: Annotated[
        int, Key("Calls of a client that may wait for a connection, or for room on it.", 1, 10_000_000)
    ] = 16_384
    write_bytes_max: Annotated[
        Bytes, Key("Unsent bytes above which a connection takes no further work.", 4 * KIB, GIB)
    ] = Bytes(1 * MIB)
    hello: Annotated[Seconds, Key("How long a connection may take to a complete hello.", *SHORT)] = Seconds(5)
    frame: Annotated[Seconds, Key("How long a frame may take from its first byte to its last.", *SHORT)] = Seconds(30)
    keepalive: Annotated[Seconds, Key("After how long a silence a client asks for a sign of life.", *LONG)] = Seconds(
        10
    )
    pong: Annotated[Seconds, Key("How long that sign may take before the server counts as dead.", *SHORT)] = Seconds(10)
    silence: Annotated[Seconds, Key("After how long a silence a server counts its client as dead.", *LONG)] = Seconds(
        45
    )
    write_stall: Annotated[Seconds, Key("How long a peer may read nothing of what waits for it.", *LONG)] = Seconds(30)
    idle: Annotated[Seconds, Key("After how long without work a server closes a connection.", *LONG)] = Seconds(600)
    linger: Annotated[Seconds, Key("How long a closing connection may take to send the rest.", *SHORT)] = Seconds(1)


class TlsSection(msgspec.Struct, frozen=True):
    """TLS of the wire, between our own processes and from our own client. Files are in PEM format."""

    enabled: Annotated[bool, Key("Whether the wire speaks TLS.")] = False
    certificate: Annotated[Path | None, Key("The certificate chain this side shows; a server must have one.")] = None
    key: Annotated[Path | None, Key("The certificate's private key.")] = None
    authority: Annotated[
        Path | None,
        Key(
            "Whom the other side's certificate must be signed by. A server with an authority lets in only clients that "
            "show a certificate; a client without one trusts the system's authorities."
        ),
    ] = None
    server_name: Annotated[
        str | None, Key("The name in the server's certificate, for a client that reaches it by another one.")
    ] = None


class WalSection(msgspec.Struct, frozen=True):
    """The write-ahead log under every durable machine."""

    segment_bytes: Annotated[Bytes, Key("How much of a segment file is reserved at once.", 4 * KIB, 4 * GIB)] = Bytes(
        64 * MIB
    )
    batch_bytes_max: Annotated[Bytes, Key("How much one group commit writes before its fdatasync.", 1, GIB)] = Bytes(
        4 * MIB
    )
    record_bytes_max: Annotated[Bytes, Key("The largest record; below queue_bytes_max.", 1, GIB)] = Bytes(16 * MIB)
    queue_bytes_max: Annotated[
        Bytes, Key("What may be appended and not yet durable; above it, writers wait.", 2, GIB)
    ] = Bytes(64 * MIB)
    mark_after: Annotated[
        Seconds | None, Key("How long the log is idle before its end is marked as durable. Empty: never.", *SHORT)
    ] = Seconds(1)


class ObjectStoreSection(msgspec.Struct, frozen=True):
    """Where fragments and the lake's objects are kept."""

    url: Annotated[
        str,
        Key(
            "file:///path, s3://bucket/prefix?region=…, gs://bucket/prefix, az://container/prefix or memory://. "
            "Empty: a folder in the data folder."
        ),
    ] = ""
    access_key_id: Annotated[Secret | None, Key("S3: the key's id. Empty: AWS's own environment and roles count.")] = (
        None
    )
    secret_access_key: Annotated[Secret | None, Key("S3: the key itself.")] = None
    session_token: Annotated[Secret | None, Key("S3: the token of a temporary key.")] = None
    service_account_key: Annotated[Secret | None, Key("GCS: a service account's key, as JSON.")] = None
    account_key: Annotated[Secret | None, Key("Azure: the storage account's key.")] = None
    connect_max: Annotated[Seconds, Key("How long a connection may take.", *SHORT)] = Seconds(5)
    silence_max: Annotated[Seconds, Key("How long a server may send nothing before it has failed.", *SHORT)] = Seconds(
        20
    )
    request_max: Annotated[Seconds, Key("How long one attempt may take, its body included.", *LONG)] = Seconds(300)
    retries_max: Annotated[int, Key("How often a failed request is tried again.", 0, 100)] = 4
    retry_max: Annotated[Seconds, Key("No attempt begins later than this after the first.", *LONG)] = Seconds(60)
    backoff: Annotated[Seconds, Key("The pause before the first retry; it doubles for each further one.", *SHORT)] = (
        Seconds(0.1)
    )
    backoff_max: Annotated[Seconds, Key("The longest pause between two attempts.", *SHORT)] = Seconds(5)
    part_bytes: Annotated[Bytes, Key("The size of one part of a multipart upload.", 5 * MIB, 5 * GIB)] = Bytes(8 * MIB)
    parts_in_flight_max: Annotated[int, Key("Parts of one upload that are on their way at once.", 1, 64)] = 4
    chunk_bytes: Annotated[Bytes, Key("How much a reader takes at a time.", 4 * KIB, GIB)] = Bytes(1 * MIB)
    page_keys_max: Annotated[int, Key("Keys in one page of a listing.", 1, 1000)] = 1000
    threads_max: Annotated[int, Key("Local folder: calls that run at once.", 1, 256)] = 16
    lock_max: Annotated[Seconds, Key("Local folder: how long to wait for another process that changes it.", *SHORT)] = (
        Seconds(30)
    )


class BrokerBounds(msgspec.Struct, frozen=True):
    """Journals, on each broker."""

    unstored_bytes_max: Annotated[
        Bytes | None,
        Key(
            "How much may wait for the fragment stores. From 80 % on, a broker takes content as fast as its stores do; "
            "at 100 % it refuses content. Empty: 32 GiB, or a quarter of the disk if that is less.",
            MIB,
            1 << 50,
        ),
    ] = None


class LakeSection(msgspec.Struct, frozen=True):
    """The lake's server: lakeFS's REST API and S3's on one port."""

    listen: Annotated[Address, Key("Where the server listens, for REST and S3.")] = Address("127.0.0.1", 8000)
    access_key_id: Annotated[
        Secret | None, Key("The access key clients must show. Empty: made at the first start, in the data folder.")
    ] = None
    secret_access_key: Annotated[
        Secret | None, Key("Its secret. All members of a lake must have the same: it also signs upload addresses.")
    ] = None


class ServerRoles(msgspec.Struct, frozen=True):
    """One machine of a cluster, as `penstock server` runs it; and what every role of a process shares."""

    name: Annotated[
        str, Key("This machine's name in cluster.members. Empty: the host name, or the only member's name.")
    ] = ""
    roles: Annotated[Names, Key("The roles that it runs: node, broker, lake. A node has an operator with it.")] = Names(
        ("node", "broker", "lake")
    )
    advertise: Annotated[
        str,
        Key(
            "The address or DNS name of this machine that others dial. Empty: the one that is listened on. It is "
            "needed where that is 0.0.0.0 or ::."
        ),
    ] = ""


class Cluster(msgspec.Struct, frozen=True):
    """The machines that run Penstock together. The same on all of them."""

    name: Annotated[str, Key("What people call the cluster.")] = "penstock"
    members: Annotated[
        Names, Key("The machines, as NAME=HOST:PORT with the address of their wire. Empty: this machine alone.")
    ] = Names(())
    zones: Annotated[Table, Key("The zone of each member: replicas are spread over zones.")] = Table(())
    keyspace: Annotated[
        str,
        Key("The KeySpace of several machines, like etcd://HOST:PORT,… Empty: in the data folder, for one machine."),
    ] = ""


class Stores(msgspec.Struct, frozen=True):
    """Object stores by name: specs say store:NAME/path, and never a URL."""

    urls: Annotated[
        Table, Key('The URL of each store. In a file the keys of [stores] are the names: default = "s3://…".')
    ] = Table(())


class Pipelines(msgspec.Struct, frozen=True):
    """Settings of pipelines by name. Flags of `penstock pipeline` count more, and those in the pipeline's code less."""

    settings: Annotated[
        Table,
        Key(
            "Settings like shop.interval=30s. In a file each pipeline has a table, [pipeline.shop], with interval, "
            "conf, master, remote, packages, max_bytes and checkpoints."
        ),
    ] = Table(())


class Config(msgspec.Struct, frozen=True):
    """All of it."""

    data: Data = Data()
    log: LogSection = LogSection()
    metrics: Metrics = Metrics()
    wire: Wire = Wire()
    tls: TlsSection = TlsSection()
    wal: WalSection = WalSection()
    objectstore: ObjectStoreSection = ObjectStoreSection()
    journal: BrokerBounds = BrokerBounds()
    lake: LakeSection = LakeSection()
    server: ServerRoles = ServerRoles()
    cluster: Cluster = Cluster()
    stores: Stores = Stores()
    pipeline: Pipelines = Pipelines()


@cache
def known_keys() -> dict[str, Declaration]:
    """Every key by its dotted name."""
    return declarations(Config)
