"""Spark in a mount namespace that hides the lake's folder, as on another host: its rows come through the lake.

`make soak-spark` runs this. Design: spark-2.md S9, S10, K3.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import access_of, make_repository, options_of

from penstock.spark.tables.lake_access import table_url
from penstock.spark.tables.lake_tree import files_of, key_of, place_at

pytestmark = pytest.mark.timeout(600)
ROWS = 60_000
WRITE = """
import json, sys
from pathlib import Path
from tests.spark.conftest import builder, end_jvm
import penstock.spark
url, options, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
spark = builder(folder).getOrCreate()
penstock.spark.register(spark)
try:
    spark.range(int(sys.argv[4])).repartition(4).write.format("lake").mode("append").options(**options).save(url)
finally:
    spark.stop()
    end_jvm()
"""


def can_hide() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_hide(), reason="this user may not make a mount namespace")
def test_workers_that_do_not_see_the_folder_send_their_files_to_the_lake(lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "other-host") + "/rows"
    target = table_url(url)
    store = Path(place_at(access_of(lake), target).store.removeprefix("file://"))
    hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{store}" && exec "$@"', "sh"]
    write = [sys.executable, "-c", WRITE, url, json.dumps(options_of(lake)), str(tmp_path), str(ROWS)]
    subprocess.run([*hidden, *write], check=True, timeout=500)
    found = files_of(access_of(lake), target)
    import pyarrow.parquet as pq

    tables = [pq.read_table(store / key_of(found.place, each)) for each in found.files]
    assert sorted(value for table in tables for value in table["id"].to_pylist()) == list(range(ROWS))
