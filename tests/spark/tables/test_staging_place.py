"""Files from hosts that do not see the lake's folder: through the lake, or refused; a store is opened once."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import access_of, log, make_repository

from penstock.kernel.errors import StagedFileMissing
from penstock.lake.records.sink_batch import BatchTable
from penstock.spark.shared.store_access import can_open, has_keys
from penstock.spark.tables import staging_place
from penstock.spark.tables.lake_access import table_url
from penstock.spark.tables.lake_commit import Batch, commit_batch
from penstock.spark.tables.lake_staging import stage
from penstock.spark.tables.lake_tree import files_of
from penstock.spark.tables.staging_place import StagingPlace, place_of

ROWS = pa.RecordBatch.from_pydict({"id": [1, 2, 3]})


def elsewhere(place: StagingPlace, folder: Path, mark: str | None = None) -> StagingPlace:
    """The same place, as a host sees it on which the URL names another folder."""
    folder.mkdir(exist_ok=True)
    wanted = place.place.mark if mark is None else mark
    return msgspec.structs.replace(
        place, place=msgspec.structs.replace(place.place, store=folder.as_uri(), mark=wanted)
    )


def commit(lake: LakeProcess, url: str, place: StagingPlace, batch: int = 0) -> None:
    target = table_url(url)
    files = stage([ROWS], place, target.path, "part")
    work = Batch("q", "s", batch)
    commit_batch(access_of(lake), target, place, work, [BatchTable(target.path, tuple(files))])


def test_a_task_that_does_not_see_the_folder_sends_its_files_to_the_lake(lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "unseen") + "/t"
    place = elsewhere(place_of(access_of(lake), table_url(url)), tmp_path / "elsewhere")
    assert not place.sees_store
    commit(lake, url, place)
    assert len(files_of(access_of(lake), table_url(url)).files) == 1
    assert list((tmp_path / "elsewhere").rglob("*.parquet")) == []


def test_a_process_without_keys_for_a_bucket_leaves_it_alone(
    lake: LakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks no metadata address: the file goes through the lake, which has the keys."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    can_open.cache_clear()
    url = make_repository(lake, "bucket") + "/t"
    seen = place_of(access_of(lake), table_url(url))
    bucket = msgspec.structs.replace(seen.place, store="s3://nowhere/lake?region=eu-central-1", mark="")
    place = msgspec.structs.replace(seen, place=bucket)
    assert not place.sees_store
    commit(lake, url, place)
    assert len(files_of(access_of(lake), table_url(url)).files) == 1
    can_open.cache_clear()


@pytest.mark.parametrize(
    ("url", "environment", "is_open"),
    [
        ("file:///data", {}, True),
        ("memory://", {}, True),
        ("", {}, True),
        ("s3://b/k", {}, False),
        ("s3://b/k", {"AWS_REGION": "eu"}, False),
        ("s3://b/k", {"AWS_ACCESS_KEY_ID": "a"}, True),
        ("s3://b/k", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, True),
        ("s3://b/k", {"AWS_EC2_METADATA_DISABLED": "false"}, True),
        ("s3://b/k", {"AWS_EC2_METADATA_DISABLED": "true"}, False),
        ("gs://b/k", {}, False),
        ("gs://b/k", {"GOOGLE_APPLICATION_CREDENTIALS": "/g"}, True),
        ("az://b/k", {"AZURE_STORAGE_ACCOUNT_NAME": ""}, False),
        ("az://b/k", {"AZURE_STORAGE_ACCOUNT_KEY": "k"}, True),
    ],
)
def test_keys_come_from_the_environment(url: str, environment: dict[str, str], is_open: bool) -> None:
    assert has_keys(url, environment) == is_open


def test_files_that_a_task_wrote_to_another_folder_are_not_committed(lake: LakeProcess, tmp_path: Path) -> None:
    """The other folder has a copy of the mark. The lake looks at its own store."""
    url = make_repository(lake, "forged") + "/t"
    seen = place_of(access_of(lake), table_url(url))
    (tmp_path / "elsewhere" / "scratch").mkdir(parents=True)
    (tmp_path / "elsewhere" / "scratch" / "store").write_text(seen.place.mark)
    forged = elsewhere(seen, tmp_path / "elsewhere")
    assert forged.sees_store
    target = table_url(url)
    files = stage([ROWS], forged, target.path, "part")
    with pytest.raises(StagedFileMissing, match=f"written by a task on {files[0].host} .* is not in the lake's store"):
        commit_batch(access_of(lake), target, seen, Batch("q", "s", 0), [BatchTable(target.path, tuple(files))])
    assert log(lake, "forged") == []


def test_a_process_opens_a_store_once(lake: LakeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_repository(lake, "opened") + "/t"
    place = place_of(access_of(lake), table_url(url))
    assert place.sees_store
    commit(lake, url, place)
    monkeypatch.setattr(staging_place, "open_store", None)
    commit(lake, url, place, batch=1)
    assert len(log(lake, "opened")) == 2
