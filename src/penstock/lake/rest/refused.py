"""Calls of lakeFS's API that this lake does not have. They answer 501 and say what to do instead."""

from collections.abc import Awaitable, Callable
from typing import Final

from penstock.kernel.errors import InvalidArgument
from penstock.lake.rest.rest_refs import BRANCH, REPOSITORY, Add
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response

__all__ = ["REFUSED", "add_refused"]

_KEYS: Final = "users and groups", "set the lake's keys in its configuration (lake.access_key_id)"
_HOOKS: Final = "actions and hooks", "let the client that commits start what must follow"
_PULLS: Final = "pull requests", "merge the branch: penstock lake merge"
_DUMPS: Final = "dumps of refs", "keep the lake's checkpoints: penstock lake recover begins from one"
_RANGES: Final = "lakeFS's own files of metadata", "ask for the tree: GET /repositories/{repository}/refs/{ref}/tree"
_GARBAGE: Final = "lakeFS's garbage job", "penstock lake gc lake://REPOSITORY, or penstock pipeline garbage"
_OLD_RULES: Final = "an earlier form of the rules", "use /settings/branch_protection and /settings/gc_rules"
_COMMITS: Final = "commits without a branch", "commit on a branch, with its date and metadata"
_PART_COPIES: Final = "copies of parts", "copy the whole object: POST objects/copy"
_OWN_METADATA: Final = "metadata of repositories", "keep an object for it, like meta.json"

# template → methods, the subject, and the next step
REFUSED: Final[dict[str, tuple[str, tuple[str, str]]]] = {
    "/auth/external/principal/login": ("POST", _KEYS),
    "/auth/users": ("GET POST", _KEYS),
    "/auth/users/{rest...}": ("GET POST PUT DELETE", _KEYS),
    "/auth/groups": ("GET POST", _KEYS),
    "/auth/groups/{rest...}": ("GET POST PUT DELETE", _KEYS),
    "/auth/policies": ("GET POST", _KEYS),
    "/auth/policies/{rest...}": ("GET PUT DELETE", _KEYS),
    "/sts/login": ("POST", _KEYS),
    f"{REPOSITORY}/actions/{{rest...}}": ("GET", _HOOKS),
    f"{REPOSITORY}/pulls": ("GET POST", _PULLS),
    f"{REPOSITORY}/pulls/{{rest...}}": ("GET PUT", _PULLS),
    f"{REPOSITORY}/refs/dump": ("PUT", _DUMPS),
    f"{REPOSITORY}/refs/restore": ("PUT", _DUMPS),
    f"{REPOSITORY}/dump": ("GET POST", _DUMPS),
    f"{REPOSITORY}/restore": ("GET POST", _DUMPS),
    f"{REPOSITORY}/metadata/{{rest...}}": ("GET", _RANGES),
    f"{REPOSITORY}/metadata": ("POST DELETE", _OWN_METADATA),
    f"{REPOSITORY}/refs/{{ref}}/symlink": ("POST", ("symlink files", "read the objects through S3 or a table format")),
    f"{REPOSITORY}/gc/prepare_commits": ("POST", _GARBAGE),
    f"{REPOSITORY}/gc/prepare_commits/{{rest...}}": ("GET POST", _GARBAGE),
    f"{REPOSITORY}/gc/prepare_uncommited": ("POST", _GARBAGE),
    f"{REPOSITORY}/gc/rules": ("GET POST DELETE", _OLD_RULES),
    f"{REPOSITORY}/branch_protection": ("GET POST DELETE", _OLD_RULES),
    f"{REPOSITORY}/commits": ("POST", _COMMITS),
    f"{BRANCH}/update_token": ("PUT", ("staging tokens", "put objects on the branch")),
    f"{BRANCH}/staging/pmpu/{{id}}/parts/{{number}}/copy": ("PUT", _PART_COPIES),
    "/config/garbage-collection": ("GET", _GARBAGE),
}


def add_refused(add: Add) -> None:
    """Add a route for each."""
    for template, (methods, (what, instead)) in REFUSED.items():
        for method in methods.split():
            add(method, template, _refusing(what, instead))


def _refusing(what: str, instead: str) -> Callable[[Request], Awaitable[Response]]:
    async def refuse(request: Request) -> Response:
        raise InvalidArgument(f"not implemented: this lake has no {what}", status=501, next_step=instead)

    return refuse
