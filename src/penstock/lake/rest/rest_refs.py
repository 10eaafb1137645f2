"""Repositories, branches and tags on lakeFS's REST API."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from penstock.kernel.bounds import Name, Signed
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.core.refs.protection import ProtectionRule, etag_of
from penstock.lake.core.refs.rules import RetentionRules
from penstock.lake.records.service import Lake
from penstock.lake.rest.rest_models import (
    BranchBody,
    ProtectionBody,
    RepositoryBody,
    ResetBody,
    TagBody,
    asked,
    branch_json,
    page_json,
    repository_json,
)
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response, text_response

__all__ = ["BASE", "BRANCH", "REPOSITORY", "Add", "PageQuery", "RefHandlers"]

BASE: Final = "/api/v1"
REPOSITORY: Final = "/repositories/{repository}"
BRANCH: Final = REPOSITORY + "/branches/{branch}"
AMOUNT: Final = 100
LONG_MS: Final = 3_600_000
AMOUNT_MAX: Final = 1000


class Add(Protocol):
    """Adds a route."""

    def __call__(
        self,
        method: str,
        template: str,
        handler: Callable[[Request], Awaitable[Response]],
        answer_ms: int | None = None,
    ) -> None: ...


class PageQuery(msgspec.Struct):
    """Which part of a list."""

    prefix: Name = ""
    after: Name = ""
    amount: Signed = AMOUNT
    delimiter: Name = ""

    @property
    def limit(self) -> int:
        return min(self.amount, AMOUNT_MAX) if self.amount > 0 else AMOUNT


class _BranchesQuery(PageQuery):
    show_hidden: bool = False


class RefHandlers:
    """The handlers."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def add_to(self, add: Add) -> None:
        add("GET", "/repositories", self.repositories)
        add("POST", "/repositories", self.create_repository)
        add("GET", REPOSITORY, self.repository)
        add("DELETE", REPOSITORY, self.delete_repository)
        add("GET", REPOSITORY + "/metadata", self.repository_metadata)
        add("GET", REPOSITORY + "/gc/dry_run", self.garbage, LONG_MS)
        add("GET", REPOSITORY + "/settings/gc_rules", self.retention)
        add("PUT", REPOSITORY + "/settings/gc_rules", self.set_retention)
        add("DELETE", REPOSITORY + "/settings/gc_rules", self.forget_retention)
        add("GET", REPOSITORY + "/settings/branch_protection", self.protection)
        add("PUT", REPOSITORY + "/settings/branch_protection", self.set_protection)
        add("GET", REPOSITORY + "/branch_protection/set_allowed", self.may_set)
        add("GET", REPOSITORY + "/gc/rules/set_allowed", self.may_set)
        add("GET", REPOSITORY + "/branches", self.branches)
        add("POST", REPOSITORY + "/branches", self.create_branch)
        add("GET", BRANCH, self.branch)
        add("DELETE", BRANCH, self.delete_branch)
        add("PUT", BRANCH, self.reset)
        add("PUT", BRANCH + "/hard_reset", self.hard_reset)
        add("GET", REPOSITORY + "/tags", self.tags)
        add("POST", REPOSITORY + "/tags", self.create_tag)
        add("GET", REPOSITORY + "/tags/{tag}", self.tag)
        add("DELETE", REPOSITORY + "/tags/{tag}", self.delete_tag)

    # repositories

    async def repositories(self, request: Request) -> Response:
        query = request.query_as(PageQuery)
        page = await self._lake.repositories(prefix=query.prefix, after=query.after, limit=query.limit)
        return json_response(page_json(page, repository_json))

    async def create_repository(self, request: Request) -> Response:
        body = await request.json(RepositoryBody)
        if body.storage_id:
            raise InvalidArgument(f"there is no storage {body.storage_id!r}: leave storage_id empty")
        made = await self._lake.create_repository(
            body.name,
            storage=body.storage_namespace,
            default_branch=body.default_branch or "main",
            is_read_only=bool(body.read_only),
            with_samples=bool(body.sample_data),
        )
        return json_response(repository_json(made), 201)

    async def repository(self, request: Request) -> Response:
        return json_response(repository_json(await self._lake.repository(request.parameters["repository"])))

    async def delete_repository(self, request: Request) -> Response:
        await asked(self._lake, request).delete_repository(request.parameters["repository"])
        return Response(204)

    async def repository_metadata(self, request: Request) -> Response:
        await self._lake.repository(request.parameters["repository"])
        return json_response({})

    async def garbage(self, request: Request) -> Response:
        return json_response(await self._lake.find_garbage(request.parameters["repository"]))

    async def retention(self, request: Request) -> Response:
        rules = await self._lake.retention(request.parameters["repository"])
        if rules is None:
            raise NotFound("there are no retention rules: all history is kept", kind="retention rules")
        return json_response(rules)

    async def set_retention(self, request: Request) -> Response:
        await self._lake.set_retention(request.parameters["repository"], await request.json(RetentionRules))
        return Response(204)

    async def forget_retention(self, request: Request) -> Response:
        await self._lake.set_retention(request.parameters["repository"], None)
        return Response(204)

    async def protection(self, request: Request) -> Response:
        rules = tuple(await self._lake.protection(request.parameters["repository"]))
        answer = json_response([msgspec.to_builtins(rule) for rule in rules])
        answer.headers["etag"] = etag_of(rules)
        return answer

    async def set_protection(self, request: Request) -> Response:
        """With `If-Match`, only if the present rules have this ETag; an empty one is that of no rules."""
        body = await request.json(list[ProtectionBody])
        expected = request.header("if-match").strip('"') if "if-match" in request.headers else None
        rules = [ProtectionRule(each.pattern, each.blocks) for each in body]
        await self._lake.set_protection(request.parameters["repository"], rules, expected=expected)
        return Response(204)

    async def may_set(self, request: Request) -> Response:
        """Every key of the lake may."""
        await self._lake.repository(request.parameters["repository"])
        return Response(204)

    # branches

    async def branches(self, request: Request) -> Response:
        query = request.query_as(_BranchesQuery)
        page = await self._lake.branches(
            request.parameters["repository"],
            prefix=query.prefix,
            after=query.after,
            limit=query.limit,
            show_hidden=query.show_hidden,
        )
        return json_response(page_json(page, branch_json))

    async def create_branch(self, request: Request) -> Response:
        body = await request.json(BranchBody)
        made = await asked(self._lake, request, body).create_branch(
            request.parameters["repository"], body.name, body.source, is_hidden=bool(body.hidden)
        )
        return text_response(made.commit, 201, "text/html")

    async def branch(self, request: Request) -> Response:
        found = await self._lake.branch(request.parameters["repository"], request.parameters["branch"])
        return json_response(branch_json(found))

    async def delete_branch(self, request: Request) -> Response:
        await asked(self._lake, request).delete_branch(request.parameters["repository"], request.parameters["branch"])
        return Response(204)

    async def reset(self, request: Request) -> Response:
        body = await request.json(ResetBody)
        repository, branch = request.parameters["repository"], request.parameters["branch"]
        lake = asked(self._lake, request, body)
        match body.type:
            case "object":
                await lake.reset(repository, branch, path=_given(body.path))
            case "common_prefix":
                await lake.reset(repository, branch, prefix=_given(body.path))
            case "reset":
                await lake.reset(repository, branch)
            case _:
                raise InvalidArgument(f"type {body.type[:40]!r}: expected object, common_prefix or reset")
        return Response(204)

    async def hard_reset(self, request: Request) -> Response:
        ref = request.query_value("ref")
        if not ref:
            raise InvalidArgument("ref is missing: which commit to reset to")
        await asked(self._lake, request).hard_reset(request.parameters["repository"], request.parameters["branch"], ref)
        return Response(204)

    # tags

    async def tags(self, request: Request) -> Response:
        query = request.query_as(PageQuery)
        page = await self._lake.tags(
            request.parameters["repository"], prefix=query.prefix, after=query.after, limit=query.limit
        )
        return json_response(page_json(page, branch_json))

    async def create_tag(self, request: Request) -> Response:
        body = await request.json(TagBody)
        made = await asked(self._lake, request, body).create_tag(request.parameters["repository"], body.id, body.ref)
        return json_response(branch_json(made), 201)

    async def tag(self, request: Request) -> Response:
        found = await self._lake.tag(request.parameters["repository"], request.parameters["tag"])
        return json_response(branch_json(found))

    async def delete_tag(self, request: Request) -> Response:
        await asked(self._lake, request).delete_tag(request.parameters["repository"], request.parameters["tag"])
        return Response(204)


def _given(path: str | None) -> str:
    if not path:
        raise InvalidArgument("path is missing: what to reset")
    return path
