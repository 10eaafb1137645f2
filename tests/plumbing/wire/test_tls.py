"""TLS from files: who trusts whom. The certificates are made anew for each run."""

import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import Stage, until

from penstock.kernel.errors import ConfigError, ConnectFailed
from penstock.plumbing.wire import Tls, WireLimits
from penstock.plumbing.wire.tls import client_context, server_context

ALL_OF_TIME = (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC))


class Authority:
    """Signs certificates; everything goes into one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def sign(self, name: str) -> dict[str, Any]:
        """The fields `certificate` and `key` of a `Tls`, for somebody at 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(name)])
        certificate = self._builder(subject, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        paths = {"certificate": self._folder / f"{name}.crt", "key": self._folder / f"{name}.key"}
        paths["certificate"].write_bytes(_pem(certificate))
        paths["key"].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(ALL_OF_TIME[0])
            .not_valid_after(ALL_OF_TIME[1])
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


async def test_calls_and_bulk_over_tls(stage: Stage, authority: Authority) -> None:
    server = await stage.server(tls=Tls(**authority.sign("server")), token="token")
    channel = await stage.channel(server.address, tls=Tls(authority=authority.certificate), token="token")
    assert (await channel.call("echo", b"secret", bytes(3_000_000))).bulk == bytes(3_000_000)
    async with channel.stream("mirror") as stream:
        for _ in range(20):
            await stream.send(bulk=bytes(100_000))
            message = await stream.receive()
            assert message is not None
            assert len(message.bulk) == 100_000


async def test_a_server_of_another_authority_is_not_trusted(stage: Stage, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    server = await stage.server(tls=Tls(**other.sign("server")))
    channel = await stage.channel(server.address, tls=Tls(authority=authority.certificate))
    with pytest.raises(ConnectFailed, match="certificate"):
        await channel.call("echo")


async def test_the_name_in_the_certificate_counts(stage: Stage, authority: Authority) -> None:
    server = await stage.server(tls=Tls(**authority.sign("server")))
    named = await stage.channel(server.address, tls=Tls(authority=authority.certificate, server_name="server"))
    await named.call("echo")
    misnamed = await stage.channel(server.address, tls=Tls(authority=authority.certificate, server_name="someone"))
    with pytest.raises(ConnectFailed):
        await misnamed.call("echo")


async def test_with_an_authority_a_server_lets_in_only_clients_it_has_signed(
    stage: Stage, authority: Authority
) -> None:
    server = await stage.server(tls=Tls(**authority.sign("server"), authority=authority.certificate))
    stranger = await stage.channel(server.address, tls=Tls(authority=authority.certificate))
    with pytest.raises(ConnectFailed):
        await stranger.call("echo")
    friend = Tls(**authority.sign("friend"), authority=authority.certificate)
    channel = await stage.channel(server.address, tls=friend)
    assert (await channel.call("echo", b"friend")).body == b"friend"


async def test_a_client_without_tls_gets_nothing(stage: Stage, authority: Authority) -> None:
    server = await stage.server(tls=Tls(**authority.sign("server")))
    plain = await stage.channel(server.address)
    with capture_logs(), pytest.raises(ConnectFailed):
        await plain.call("echo")


async def test_a_stalled_handshake_is_ended(stage: Stage, authority: Authority) -> None:
    server = await stage.server(tls=Tls(**authority.sign("server")), limits=WireLimits(hello_ms=100))
    peer = await stage.raw(server.address)
    await peer.send(b"\x16\x03\x01")
    await peer.until_closed()
    await until(lambda: server.statistics().connections_now == 0)


@pytest.mark.parametrize("broken", ["no-key", "no-file", "no-pem", "nothing"])
def test_files_which_do_not_fit_are_named(authority: Authority, tmp_path: Path, broken: str) -> None:
    files = authority.sign("server")
    match broken:
        case "no-key":
            tls = Tls(certificate=files["certificate"])
        case "no-file":
            tls = Tls(certificate=tmp_path / "absent.crt", key=files["key"])
        case "no-pem":
            (tmp_path / "text").write_text("no certificate")
            tls = Tls(certificate=tmp_path / "text", key=files["key"])
        case _:
            tls = Tls()
    with pytest.raises(ConfigError, match=r"certificate|absent\.crt|text"):
        server_context(tls)


def test_a_client_needs_no_files_and_speaks_nothing_old() -> None:
    context = client_context(Tls())
    assert context.check_hostname
    assert context.minimum_version.name == "TLSv1_3"
