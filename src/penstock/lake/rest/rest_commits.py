"""Commits on the REST API: commit, log, diff, merge, revert, cherry-pick, import; long ones also in the background."""

from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from penstock.kernel.bounds import Name, Signed
from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.service import Commit, ImportPath, Lake, Strategy
from penstock.lake.rest.rest_models import (
    CherryPickBody,
    CommitBody,
    GarbageBody,
    ImportBody,
    MergeBody,
    RevertBody,
    asked,
    change_json,
    commit_json,
    import_json,
    page_json,
)
from penstock.lake.rest.rest_refs import BRANCH, REPOSITORY, Add, PageQuery
from penstock.lake.rest.work import Work, Works
from penstock.plumbing.http.problems import status_of
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response
from penstock.plumbing.ports.ports import Ports

__all__ = ["CommitHandlers"]

MERGE: Final = REPOSITORY + "/refs/{ref}/merge/{branch}"
LONG_MS: Final = 3_600_000  # a commit of ten million objects may take its time


class _LogQuery(msgspec.Struct):
    after: Name = ""
    amount: Signed = 100
    limit: bool = False  # lakeFS's word: no more than `amount`, however many there are
    first_parent: bool = False
    since: Name = ""
    stop_at: Name = ""
    objects: tuple[Name, ...] = ()
    prefixes: tuple[Name, ...] = ()


class _DiffQuery(PageQuery):
    type: Name = "three_dot"
    include_right_stats: bool = False


class CommitHandlers:
    """The handlers."""

    def __init__(self, lake: Lake, ports: Ports) -> None:
        self._lake = lake
        self._works = Works(ports)

    def add_to(self, add: Add) -> None:
        add("POST", BRANCH + "/commits", self.commit, LONG_MS)
        add("POST", BRANCH + "/commits/async", self.commit_async)
        add("GET", BRANCH + "/commits/async/{id}", self.work)
        add("GET", REPOSITORY + "/commits/{commit}", self.get_commit)
        add("GET", REPOSITORY + "/refs/{ref}/commits", self.log)
        add("GET", BRANCH + "/diff", self.uncommitted)
        add("GET", REPOSITORY + "/refs/{ref}/diff/{right}", self.diff)
        add("POST", MERGE, self.merge, LONG_MS)
        add("GET", MERGE, self.merge_base)
        add("POST", MERGE + "/async", self.merge_async)
        add("GET", MERGE + "/async/{id}", self.work)
        add("POST", REPOSITORY + "/gc", self.collect_garbage)
        add("GET", REPOSITORY + "/gc/{id}", self.work)
        add("POST", BRANCH + "/revert", self.revert, LONG_MS)
        add("POST", BRANCH + "/cherry-pick", self.cherry_pick, LONG_MS)
        add("POST", BRANCH + "/import", self.start_import)
        add("GET", BRANCH + "/import", self.import_status)
        add("DELETE", BRANCH + "/import", self.cancel_import)

    # commits

    async def commit(self, request: Request) -> Response:
        return json_response(commit_json(await self._commit(request, await request.json(CommitBody), None)), 201)

    async def commit_async(self, request: Request) -> Response:
        body = await request.json(CommitBody)
        work = self._works.start(lambda watch: self._commit(request, body, watch))
        return json_response({"id": work.id}, 202)

    async def _commit(self, request: Request, body: CommitBody, watch: Any) -> Any:
        if request.query_value("source_metarange"):
            raise InvalidArgument("source_metarange is not supported", status=501)
        return await asked(self._lake, request, body).commit(
            request.parameters["repository"],
            request.parameters["branch"],
            body.message,
            metadata=body.metadata,
            allow_empty=bool(body.allow_empty),
            created_at=body.date,
            watch=watch,
        )

    async def work(self, request: Request) -> Response:
        return json_response(_work_json(self._works.get(request.parameters["id"])))

    async def get_commit(self, request: Request) -> Response:
        found = await self._lake.get_commit(request.parameters["repository"], request.parameters["commit"])
        return json_response(commit_json(found))

    async def log(self, request: Request) -> Response:
        query = request.query_as(_LogQuery)
        page = await self._lake.log(
            request.parameters["repository"],
            request.parameters["ref"],
            after=query.after,
            limit=min(query.amount, 1000) if query.amount > 0 else 100,
            first_parent=query.first_parent,
            since=_seconds(query.since),
            stop_at=query.stop_at,
            paths=query.objects,
            prefixes=query.prefixes,
        )
        if query.limit:
            page = msgspec.structs.replace(page, next="")
        return json_response(page_json(page, commit_json))

    # diffs

    async def uncommitted(self, request: Request) -> Response:
        query = request.query_as(_DiffQuery)
        page = await self._lake.uncommitted(
            request.parameters["repository"],
            request.parameters["branch"],
            prefix=query.prefix,
            after=query.after,
            delimiter=query.delimiter,
            limit=query.limit,
        )
        return json_response(page_json(page, change_json))

    async def diff(self, request: Request) -> Response:
        query = request.query_as(_DiffQuery)
        if query.type not in ("two_dot", "three_dot"):
            raise InvalidArgument(f"type {query.type[:40]!r}: expected two_dot or three_dot")
        page = await self._lake.diff(
            request.parameters["repository"],
            request.parameters["ref"],
            request.parameters["right"],
            three_dot=query.type == "three_dot",
            prefix=query.prefix,
            after=query.after,
            delimiter=query.delimiter,
            limit=query.limit,
        )
        return json_response(page_json(page, lambda each: change_json(each, with_right=query.include_right_stats)))

    # head moves

    async def merge(self, request: Request) -> Response:
        merged = await self._merge(request, await _optional(request, MergeBody), None)
        return json_response({"reference": merged.id})

    async def merge_async(self, request: Request) -> Response:
        body = await _optional(request, MergeBody)
        work = self._works.start(lambda watch: self._merge(request, body, watch))
        return json_response({"id": work.id}, 202)

    async def _merge(self, request: Request, body: MergeBody, watch: Any) -> Any:
        return await asked(self._lake, request, body).merge(
            request.parameters["repository"],
            request.parameters["ref"],
            request.parameters["branch"],
            message=body.message or "",
            metadata=body.metadata,
            strategy=cast("Strategy", body.strategy or ""),
            allow_empty=bool(body.allow_empty or body.force),
            squash=bool(body.squash_merge),
            watch=watch,
        )

    async def merge_base(self, request: Request) -> Response:
        repository = request.parameters["repository"]
        source = await self._lake.get_commit(repository, request.parameters["ref"])
        destination = await self._lake.get_commit(repository, request.parameters["branch"])
        base = await self._lake.merge_base(repository, source.id, destination.id)
        return json_response(
            {"source_commit_id": source.id, "destination_commit_id": destination.id, "base_commit_id": base}
        )

    async def revert(self, request: Request) -> Response:
        body = await request.json(RevertBody)
        await asked(self._lake, request, body).revert(
            request.parameters["repository"],
            request.parameters["branch"],
            body.ref,
            parent=body.parent_number,
            allow_empty=bool(body.allow_empty),
        )
        return Response(204)

    async def cherry_pick(self, request: Request) -> Response:
        body = await request.json(CherryPickBody)
        picked = await asked(self._lake, request, body).cherry_pick(
            request.parameters["repository"], request.parameters["branch"], body.ref, parent=body.parent_number or 0
        )
        return json_response(commit_json(picked), 201)

    # garbage

    async def collect_garbage(self, request: Request) -> Response:
        body = await request.json(GarbageBody)
        repository = request.parameters["repository"]
        await self._lake.repository(repository)
        work = self._works.start(
            lambda watch: self._lake.collect_garbage(repository, grace_s=body.grace_seconds, watch=watch)
        )
        return json_response({"id": work.id}, 202)

    # imports

    async def start_import(self, request: Request) -> Response:
        body = await request.json(ImportBody)
        paths = [ImportPath(each.path, each.destination, each.type == "common_prefix") for each in body.paths]
        id_ = await asked(self._lake, request, body).start_import(
            request.parameters["repository"],
            request.parameters["branch"],
            paths,
            body.commit.message,
            metadata=body.commit.metadata,
            allow_empty=body.allow_empty,
        )
        return json_response({"id": id_}, 202)

    async def import_status(self, request: Request) -> Response:
        status = await self._lake.import_status(
            request.parameters["repository"], request.parameters["branch"], _import_id(request)
        )
        return json_response(import_json(status))

    async def cancel_import(self, request: Request) -> Response:
        await self._lake.cancel_import(
            request.parameters["repository"], request.parameters["branch"], _import_id(request)
        )
        return Response(204)


def _work_json(work: Work) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "task_id": work.id,
        "completed": work.is_completed,
        "update_time": datetime.fromtimestamp(work.updated_at, UTC).isoformat(),
        "progress": {"phase": work.progress.phase, "done": work.progress.done, "total": work.progress.total},
    }
    if work.result is not None:
        shown["result"] = commit_json(work.result) if isinstance(work.result, Commit) else work.result
    if work.error is not None:
        shown["error"] = {"message": work.error.message, "penstock": work.error.to_record()}
        shown["status_code"] = status_of(work.error)
    return shown


async def _optional(request: Request, kind: type[MergeBody]) -> MergeBody:
    """The body, which may be left out."""
    return await request.json(kind) if request.content_length != 0 else kind()


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"since {text[:40]!r}: expected a time like 2026-11-15T12:00:00Z") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _import_id(request: Request) -> str:
    found = request.query_value("id")
    if not found:
        raise InvalidArgument("id is missing: which import")
    return found
