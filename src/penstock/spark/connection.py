"""How Spark's processes reach brokers: addresses, token and TLS, found as the command line finds them. spark-2.md S15.

Options come first; then PENSTOCK_BROKERS and PENSTOCK_TOKEN; then the configuration of the driver (`penstock.toml`,
PENSTOCK_WIRE_TOKEN, PENSTOCK_TLS_…), and what `penstock up` runs in its data folder. The driver reads the files of
TLS. Their text travels to tasks inside Spark's own serialised objects, so no other host needs the files. A token and a
key are in no `repr`, hence in no log and in no error.
"""

import atexit
import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.plumbing.config import Config, load
from penstock.plumbing.process.running import running_in
from penstock.plumbing.wire.tls import Tls

__all__ = ["CONNECTION_OPTIONS", "Connection", "TlsText", "connection_of", "wire_options"]

CONNECTION_OPTIONS: Final = {
    "brokers": ("PENSTOCK_BROKERS", "Addresses of brokers, separated by commas."),
    "token": ("PENSTOCK_TOKEN, or the setting wire.token", "The token that brokers ask for."),
    "tls": ("the setting tls.enabled", "true: connections to brokers are encrypted."),
    "tlsAuthority": ("the setting tls.authority", "A PEM file on the driver: the authority of the brokers."),
    "tlsCertificate": ("the setting tls.certificate", "A PEM file on the driver: the certificate that tasks show."),
    "tlsKey": ("the setting tls.key", "A PEM file on the driver: the private key of that certificate."),
    "tlsServerName": ("the setting tls.server_name", "The name in the brokers' certificates."),
    "timeoutSeconds": ("60", "How long to wait for brokers before a task or a commit fails."),
}
PRIVATE: Final = 0o600


class TlsText(msgspec.Struct, frozen=True):
    """The content of the files of TLS."""

    certificate: str = ""
    key: str = ""
    authority: str = ""
    server_name: str = ""

    def __repr__(self) -> str:
        return "TlsText()"  # a key does not belong into a log

    def files(self) -> Tls:
        """Return the same as files that only this user may read, and that are removed when the process ends."""
        found = {name: _file(text) for name in ("certificate", "key", "authority") if (text := getattr(self, name))}
        return Tls(**found, server_name=self.server_name or None)


class Connection(msgspec.Struct, frozen=True):
    """Where the brokers are, and what opens them."""

    brokers: tuple[str, ...]
    token: str | None
    timeout_s: float
    tls: TlsText | None = None

    def __repr__(self) -> str:
        return f"Connection({','.join(self.brokers)})"  # a token does not belong into a log


def connection_of(options: Mapping[str, str]) -> Connection:
    """Return the connection that the options of a reader or a writer name. Runs on the driver."""
    config = load(environment=os.environ).config
    brokers = tuple(_words(options.get("brokers", os.environ.get("PENSTOCK_BROKERS", "")))) or _local(config)
    if not brokers:
        raise InvalidArgument(
            "no option brokers: say where they are, like .option('brokers', '127.0.0.1:7201')",
            next_step="or set PENSTOCK_BROKERS",
        )
    wire = wire_options(config)
    token = options.get("token") or os.environ.get("PENSTOCK_TOKEN", "") or wire.get("token", "")
    tls = _tls({**wire, **options})
    return Connection(brokers, token or None, _seconds(options), tls)


def wire_options(config: Config) -> dict[str, str]:
    """Return what a configuration says of the connections to brokers, as options of the format `journal`."""
    found = {"token": config.wire.token.reveal()} if config.wire.token is not None else {}
    if not config.tls.enabled:
        return found
    files = {
        "tlsAuthority": config.tls.authority,
        "tlsCertificate": config.tls.certificate,
        "tlsKey": config.tls.key,
        "tlsServerName": config.tls.server_name,
    }
    return {**found, "tls": "true", **{name: str(value) for name, value in files.items() if value is not None}}


def _local(config: Config) -> tuple[str, ...]:
    """Return the broker that `penstock up` runs in the data folder."""
    up = running_in(config.data.folder)
    return (up.broker,) if up is not None and up.broker else ()


def _tls(options: Mapping[str, str]) -> TlsText | None:
    chosen = options.get("tls", "false").lower()
    if chosen not in ("true", "false"):
        raise InvalidArgument(f"option tls: {options['tls']!r}: expected true or false")
    if chosen == "false":
        return None
    return TlsText(
        _text(options.get("tlsCertificate", "")),
        _text(options.get("tlsKey", "")),
        _text(options.get("tlsAuthority", "")),
        options.get("tlsServerName", ""),
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text() if path else ""
    except OSError as error:
        raise ConfigError(f"TLS file {path}: {error.strerror}") from None


@cache
def _file(text: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="penstock-tls-"))
    path = folder / "file.pem"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w") as file:
        file.write(text)
    atexit.register(_remove, path)
    return path


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        path.parent.rmdir()


def _seconds(options: Mapping[str, str]) -> float:
    text = options.get("timeoutSeconds", "60")
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(f"option timeoutSeconds: {text!r}: expected a number of at least 1")
    return float(text)


def _words(text: str) -> Iterable[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
