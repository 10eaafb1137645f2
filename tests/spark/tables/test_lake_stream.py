"""Where the batches of a stream of a table's changes end, on a real lake. No Spark runs."""

import io

import pytest
from pyspark.sql.types import StructType
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import access_of, log, make_repository

from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeClient, LakeUrl
from penstock.spark.tables.lake_access import LakeAccess, table_url
from penstock.spark.tables.lake_format import LakeFormat
from penstock.spark.tables.lake_reader import FilePartition
from penstock.spark.tables.lake_stream import LakeStreamReader
from penstock.spark.versions import ReadMaxBytes

SIZE = 1000


def commit(access: LakeAccess, repository: str, name: str) -> str:
    branch = f"/repositories/{repository}/branches/main"
    with LakeClient(access.url, access.key, access.secret) as lake:
        lake.upload(LakeUrl(repository, "main", f"rows/{name}.parquet"), io.BytesIO(b"x" * SIZE))
    return str(access.ask("POST", f"{branch}/commits", {"message": name})["id"])


def test_a_batch_ends_at_the_last_commit_that_fits(lake: LakeProcess) -> None:
    access, url = access_of(lake), table_url(f"{make_repository(lake, 'limited')}/rows")
    ids = [commit(access, "limited", f"f{number}") for number in range(5)]
    assert [each["id"] for each in log(lake, "limited")] == ids[::-1]

    def reader(max_bytes: int | None) -> LakeStreamReader:
        return LakeStreamReader(access, url, StructType(), ignores_deletes=False, max_bytes=max_bytes)

    def ends(max_bytes: int) -> list[str]:
        """Return the ends of all batches after the first commit."""
        stream, start, found = reader(max_bytes), {"commit": ids[0]}, list[str]()
        while (end := stream.latestOffset(start, ReadMaxBytes(max_bytes))) != start:
            files = stream.partitions(start, end)
            assert [each.key.rpartition(".")[2] for each in files if isinstance(each, FilePartition)]
            found.append(end["commit"])
            start = end
        return found

    assert ends(2 * SIZE) == [ids[2], ids[4]]
    assert ends(3 * SIZE - 1) == [ids[2], ids[4]]
    assert ends(1) == ids[1:]  # a commit is not cut
    assert ends(100 * SIZE) == [ids[4]]
    assert reader(None).latestOffset({"commit": ids[0]}) == {"commit": ids[4]}
    old = reader(2 * SIZE)  # Spark 4.0 and 4.1 tell no start: the batch that was planned last is known
    assert old.latestOffset() == {"commit": ids[4]}  # the first batch is the table as it is
    old.partitions({"commit": ids[0]}, {"commit": ids[1]})
    assert old.latestOffset() == {"commit": ids[3]}

    now = reader(2 * SIZE)
    now.prepareForTriggerAvailableNow()
    commit(access, "limited", "later")
    assert now.latestOffset({"commit": ids[4]}, now.getDefaultReadLimit()) == {"commit": ids[4]}


def test_a_wrong_limit_is_refused(lake: LakeProcess) -> None:
    given = {"path": "lake://limited@main/rows", "maxbytespertrigger": "many", "lake": lake.url}
    given |= {"access_key_id": "a", "secret_access_key": "b"}
    with pytest.raises(InvalidArgument, match="option maxBytesPerTrigger: 'many'"):
        LakeFormat(given).streamReader(StructType())
