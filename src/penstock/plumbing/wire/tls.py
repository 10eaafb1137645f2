"""TLS from the configuration: which files a server or a channel shows, and which authority it trusts.

With an authority on the server's side, clients must show a certificate of it too (mutual TLS). Nothing below TLS 1.3
is spoken: both sides are ours.
"""

import ssl
from pathlib import Path

import msgspec

from penstock.kernel.errors import ConfigError

__all__ = ["Tls", "client_context", "server_context"]


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files in PEM format."""

    certificate: Path | None = None  # what this side shows: required on a server
    key: Path | None = None
    authority: Path | None = None  # what the other side's certificate must be signed by
    server_name: str | None = None  # channel: the name in the server's certificate, if it is not the host


def server_context(tls: Tls) -> ssl.SSLContext:
    """The files that a server needs. With an authority, clients must show a certificate."""
    if tls.certificate is None or tls.key is None:
        raise ConfigError("TLS on a server needs a certificate and a key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, tls)
    if tls.authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: Tls) -> ssl.SSLContext:
    """The files that a channel needs. Without an authority, the system's are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load(context, tls)
    if tls.authority is None:
        context.load_default_certs()
    return context


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    if (tls.certificate is None) != (tls.key is None):
        raise ConfigError("TLS needs a certificate and its key, or neither")
    try:
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
        if tls.authority is not None:
            context.load_verify_locations(tls.authority)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (tls.certificate, tls.key, tls.authority) if path is not None)
        raise ConfigError(f"TLS files do not load ({files}): {error}") from None
