"""Any sequence of calls does to a store what it does to a dict."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from penstock.kernel.errors import InvalidArgument, NotFound, PreconditionFailed
from penstock.plumbing.objects import ETag, ObjectPage, ObjectStore

# None of them is the folder of another.
KEYS = st.sampled_from(["a", "b.c", "b/c", "b/d/e", "b/d/f", "b0", "date=1/x y", "ü"])
PREFIXES = st.sampled_from(["", "b/", "b/d/", "date=1/", "nothing/"])
DATA = st.binary(max_size=20)
POSITIONS = st.integers(0, 22)


class StoreModel(RuleBasedStateMachine):
    """The store, the dict, and every ETag ever given."""

    open_new: Any  # set by the test

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.store: ObjectStore = self.open_new()
        self.model: dict[str, bytes] = {}
        self.etags: dict[str, ETag] = {}
        self.old_etags: dict[str, ETag] = {}

    def run(self, call: Any) -> Any:
        async def called() -> Any:
            return await call

        return self.runner.run(called())

    def stored(self, key: str, data: bytes, etag: ETag | None = None) -> None:
        if key in self.model and self.model[key] != data:
            self.old_etags[key] = self.etags[key]
        self.model[key] = data
        self.etags[key] = etag or self.run(self.store.head(key)).etag

    @rule(key=KEYS, data=DATA)
    def put(self, key: str, data: bytes) -> None:
        self.stored(key, data, self.run(self.store.put(key, data)))

    @rule(key=KEYS, data=DATA)
    def put_if_absent(self, key: str, data: bytes) -> None:
        if key in self.model:
            with pytest.raises(PreconditionFailed):
                self.run(self.store.put(key, data, if_absent=True))
        else:
            self.stored(key, data, self.run(self.store.put(key, data, if_absent=True)))

    @rule(key=KEYS, data=DATA, old=st.booleans())
    def put_if_match(self, key: str, data: bytes, old: bool) -> None:
        etag = (self.old_etags if old else self.etags).get(key, ETag('"none"'))
        if key in self.model and etag == self.etags[key]:
            self.stored(key, data, self.run(self.store.put(key, data, if_match=etag)))
        else:
            with pytest.raises(PreconditionFailed):
                self.run(self.store.put(key, data, if_match=etag))

    @rule(key=KEYS, chunks=st.lists(DATA, max_size=4), end=st.sampled_from(["well", "aborted", "failed"]))
    def write(self, key: str, chunks: list[bytes], end: str) -> None:
        async def write() -> None:
            async with self.store.writer(key) as writer:
                for chunk in chunks:
                    await writer.write(chunk)
                if end == "aborted":
                    await writer.abort()
                if end == "failed":
                    raise ZeroDivisionError

        try:
            self.run(write())
        except ZeroDivisionError:
            assert end == "failed"
        if end == "well":
            self.stored(key, b"".join(chunks))

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete(self, keys: list[str]) -> None:
        self.run(self.store.delete(*keys))
        for key in keys:
            self.model.pop(key, None)

    @rule(source=KEYS, other=KEYS)
    def copy(self, source: str, other: str) -> None:
        if source not in self.model:
            with pytest.raises(NotFound):
                self.run(self.store.copy(source, other))
        elif source != other:
            self.run(self.store.copy(source, other))
            self.stored(other, self.model[source])

    @rule(key=KEYS, start=POSITIONS, end=POSITIONS | st.none())
    def get(self, key: str, start: int, end: int | None) -> None:
        if key not in self.model:
            with pytest.raises(NotFound if end is None or start <= end else InvalidArgument):
                self.run(self.store.get(key, start, end))
        elif start > len(self.model[key]) or (end is not None and end < start):
            with pytest.raises(InvalidArgument):
                self.run(self.store.get(key, start, end))
        else:
            found = self.run(self.store.get(key, start, end))
            assert bytes(found.data) == self.model[key][start:end]
            assert found.meta.etag == self.etags[key]

    @rule(prefix=PREFIXES, after=st.just("") | KEYS, delimiter=st.sampled_from(["", "/"]))
    def list(self, prefix: str, after: str, delimiter: Any) -> None:
        async def collect(pages: AsyncIterator[ObjectPage]) -> set[str]:
            return {name for page in [page async for page in pages] for name in names_of(page)}

        found = self.run(collect(self.store.list(prefix, after=after, delimiter=delimiter)))
        below = {key for key in self.model if key.startswith(prefix)}
        if delimiter:
            below = {prefix + cut_behind_slash(key[len(prefix) :]) for key in below}
        assert found == {name for name in below if name > after}

    @invariant()
    def keys_sizes_and_etags_agree(self) -> None:
        if not hasattr(self, "store"):
            return

        async def metas() -> list[tuple[str, int, ETag]]:
            pages = [page async for page in self.store.list()]
            return [(meta.key, meta.size, meta.etag) for page in pages for meta in page.objects]

        assert self.run(metas()) == [(key, len(data), self.etags[key]) for key, data in sorted(self.model.items())]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
            self.runner.close()


def names_of(page: ObjectPage) -> tuple[str, ...]:
    return (*page.folders, *(meta.key for meta in page.objects))


def cut_behind_slash(name: str) -> str:
    head, slash, _ = name.partition("/")
    return head + slash


def test_a_store_is_a_dict(open_new: Any, request: pytest.FixtureRequest) -> None:
    class Model(StoreModel):
        pass

    Model.open_new = staticmethod(open_new)
    is_remote = request.node.callspec.params["open_new"] in ("s3", "azure")
    examples = 8 if is_remote else 25
    run_state_machine_as_test(
        Model, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None, derandomize=is_remote)
    )
