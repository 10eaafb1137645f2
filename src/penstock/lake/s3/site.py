"""The S3 gateway of a lake, as a site to share the lake's port with its REST API."""

from penstock.lake.records.service import Lake
from penstock.lake.s3.gateway import Keyring, S3Gateway
from penstock.lake.s3.lake_buckets import LakeBuckets
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.app import Site
from penstock.plumbing.ports.ports import Ports, system_ports

__all__ = ["lake_site"]


def lake_site(
    lake: Lake,
    access_key_id: str,
    secret_access_key: str,
    *,
    domain: str = "",
    region: str = "us-east-1",
    ports: Ports | None = None,
) -> Site:
    """Claims requests that carry an AWS signature, and those addressed to the domain, if there is one."""
    ports = ports or system_ports()
    credentials = Keyring({access_key_id: Secret(secret_access_key)})
    return S3Gateway(
        LakeBuckets(lake, ports.clock),
        credentials,
        domain=domain,
        region=region,
        ports=ports,
    ).site()
