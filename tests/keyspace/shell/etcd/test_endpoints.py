"""Endpoints over TLS: both sides show a certificate, and a server of another authority is not spoken to."""

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.keyspace.shell.etcd.server import EtcdServer

from penstock.kernel.errors import ConfigError, ConnectFailed, InvalidArgument
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.etcd.options import EtcdOptions
from penstock.keyspace.shell.etcd.store import EtcdKeySpace


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._sign(self._name, self._key, is_authority=True)
        self.file = self._write("authority.pem", own.public_bytes(serialization.Encoding.PEM))

    def certify(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, is_authority=False)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return (
            self._write(f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}.key", secret),
        )

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def tls_server(tmp_path: Path, authority: Authority) -> Iterator[EtcdServer]:
    certificate, key = authority.certify("server")
    flags = ("--cert-file", certificate, "--key-file", key, "--trusted-ca-file", authority.file, "--client-cert-auth")
    server = EtcdServer(tmp_path / "data", scheme="https", flags=tuple(map(str, flags)))
    server.start()
    try:
        yield server
    finally:
        server.kill()


async def test_tls_on_both_sides(tls_server: EtcdServer, authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.certify("client")
    options = EtcdOptions(authority=authority.file, certificate=certificate, key=key)
    async with await EtcdKeySpace.open([tls_server.address], options) as keyspace:
        assert (await keyspace.transact(then=[PutKey("a", b"")])).succeeded
    stranger = Authority(tmp_path, "theirs")
    theirs, their_key = stranger.certify("client")
    for wrong in (
        EtcdOptions(authority=stranger.file, certificate=certificate, key=key, connect_ms_max=300, retry_ms_max=1),
        EtcdOptions(authority=authority.file, certificate=theirs, key=their_key, connect_ms_max=300, retry_ms_max=1),
        EtcdOptions(connect_ms_max=300, retry_ms_max=1),
    ):
        with pytest.raises(ConnectFailed):
            await EtcdKeySpace.open([tls_server.address], wrong)


async def test_files_which_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"authority.pem: No such file"):
        EtcdKeySpace(["127.0.0.1:1"], EtcdOptions(authority=tmp_path / "authority.pem"))


async def test_no_endpoints() -> None:
    with pytest.raises(InvalidArgument):
        EtcdKeySpace([])
