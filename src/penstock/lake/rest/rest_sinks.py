"""What lakeFS's API has not: sinks with their batches, and where the files of a ref are, for readers like Spark."""

from typing import Any, Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.service import ChangeKind, Lake
from penstock.lake.records.sink_batch import BatchBody, SinkBody, TreeBody
from penstock.lake.rest.rest_models import list_json
from penstock.lake.rest.rest_refs import BRANCH, REPOSITORY, Add, PageQuery
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.response import Response, json_response

__all__ = ["SinkHandlers"]

LONG_MS: Final = 3_600_000
_PARTS: Final = ("repository", "branch")


class SinkHandlers:
    """The handlers."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def add_to(self, add: Add) -> None:
        add("GET", BRANCH + "/sinks", self.sinks)
        add("PUT", BRANCH + "/sinks", self.adopt)
        add("DELETE", BRANCH + "/sinks", self.forget)
        add("GET", BRANCH + "/sinks/place", self.place)
        add("POST", BRANCH + "/sinks/batches", self.commit, LONG_MS)
        add("PUT", BRANCH + "/sinks/staged/{address...}", self.stage, LONG_MS)
        add("PUT", BRANCH + "/sinks/lists/{list}", self.stage_list, LONG_MS)
        add("POST", BRANCH + "/sinks/trees", self.commit_tree, LONG_MS)
        add("GET", REPOSITORY + "/gc/roots", self.roots, LONG_MS)
        add("GET", REPOSITORY + "/refs/{ref}/tree", self.tree)
        add("GET", REPOSITORY + "/refs/{ref}/tree/diff/{right}", self.diff)

    async def sinks(self, request: Request) -> Response:
        found = await self._lake.sinks(*_branch(request))
        return json_response(list_json(msgspec.to_builtins(each) for each in found))

    async def place(self, request: Request) -> Response:
        return json_response(msgspec.to_builtins(await self._lake.sink_place(*_branch(request))))

    async def adopt(self, request: Request) -> Response:
        await self._lake.adopt_sink(*_branch(request), await request.json(SinkBody))
        return Response(204)

    async def forget(self, request: Request) -> Response:
        sink = request.query_value("sink")
        if not sink:
            raise InvalidArgument("sink is missing: which one")
        await self._lake.forget_sink(*_branch(request), sink)
        return Response(204)

    async def commit(self, request: Request) -> Response:
        done = await self._lake.commit_batch(*_branch(request), await request.json(BatchBody))
        return json_response(msgspec.to_builtins(done), 201 if done.outcome == "applied" else 200)

    async def stage(self, request: Request) -> Response:
        address = request.parameters["address"]
        size = await self._lake.stage_file(*_branch(request), address, request.body())
        return json_response({"size": size}, 201)

    async def stage_list(self, request: Request) -> Response:
        data = await request.read()
        await self._lake.stage_list(*_branch(request), request.parameters["list"], data)
        return Response(204)

    async def commit_tree(self, request: Request) -> Response:
        done = await self._lake.commit_tree(*_branch(request), await request.json(TreeBody))
        return json_response(msgspec.to_builtins(done), 201 if done.outcome == "applied" else 200)

    async def roots(self, request: Request) -> Response:
        return json_response(msgspec.to_builtins(await self._lake.garbage_roots(request.parameters["repository"])))

    async def tree(self, request: Request) -> Response:
        found = await self._lake.tree_place(request.parameters["repository"], request.parameters["ref"])
        return json_response(msgspec.to_builtins(found))

    async def diff(self, request: Request) -> Response:
        """A two-dot diff with the addresses of the objects that `right` has, and of those that it no longer has."""
        query = request.query_as(PageQuery)
        page = await self._lake.diff(
            request.parameters["repository"],
            request.parameters["ref"],
            request.parameters["right"],
            three_dot=False,
            prefix=query.prefix,
            after=query.after,
            limit=query.limit,
        )
        return json_response(list_json((_change_json(each) for each in page.results), page.next))


def _branch(request: Request) -> tuple[str, str]:
    repository, branch = (request.parameters[each] for each in _PARTS)
    return repository, branch


def _change_json(change: Any) -> dict[str, Any]:
    entry = change.entry
    return {
        "type": change.kind.value,
        "path": change.path,
        "address": "" if entry is None else entry.address,
        "size_bytes": 0 if entry is None else entry.size,
        "removed": change.kind is ChangeKind.REMOVED,
    }
