"""The lake's HTTP server: lakeFS's REST API and the S3 gateway on one port."""

from collections.abc import Sequence

from penstock.lake.member.shelves import namespace_prefix
from penstock.lake.records.service import Lake
from penstock.lake.rest.credentials import Credentials
from penstock.lake.rest.rest import rest_site
from penstock.lake.s3.site import lake_site
from penstock.plumbing.http.app import App, Site
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.ports.ports import Ports

__all__ = ["lake_app"]


def lake_app(
    lake: Lake,
    credentials: Credentials,
    store_url: str,
    *,
    first_sites: Sequence[Site] = (),
    more_sites: Sequence[Site] = (),
    limits: HttpLimits | None = None,
    ports: Ports | None = None,
) -> App:
    """The application of a lake whose objects are in that store. `first_sites` are asked first whose a request is,
    `more_sites` last.

    S3 clients sign with the same pair of keys; what carries an AWS signature is the gateway's.
    """
    can_sign = store_url.startswith(("s3:", "gs:", "az:"))
    rest = rest_site(lake, credentials, namespace_prefix=namespace_prefix(store_url), can_sign=can_sign, ports=ports)
    s3 = lake_site(lake, credentials.access_key_id, credentials.secret_access_key, ports=ports)
    return App([*first_sites, s3, rest, *more_sites], limits, ports)
