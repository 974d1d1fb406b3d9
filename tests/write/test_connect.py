"""Both engines on a Spark Connect session, in a process of its own since one process holds classic sessions or Connect ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STORY = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from lakewright.errors import WriteFailed
from lakewright.options import resolve
from lakewright.plan.distribution import choose_distribution
from lakewright.plan.partitioning import build_spec
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.write.engine import write_files

spark = SparkSession.builder.remote("local[2]").getOrCreate()
df = spark.range(100).selectExpr("id", "cast(id % 3 as string) p")
schema, options = schema_from("id bigint, p string"), resolve({}, {}, {})
spec = build_spec(schema, ["p", "bucket(2, p)"])
for engine in ("native", "arrow"):
    plan = WritePlan("db.t", "run", f"file://{sys.argv[1]}/{engine}", schema, spec, UNSORTED_SORT_ORDER, engine, choose_distribution(spec, UNSORTED_SORT_ORDER, options), options, {}, None)
    files = write_files(plan, df)
    assert sorted(f.partition[0] for f in files) == ["0", "1", "2"] and sum(f.record_count for f in files) == 100, files
    try:
        write_files(plan, df.selectExpr("if(id = 7, raise_error('bad row'), id) id", "p"))
        raise AssertionError("a bad row was taken")
    except WriteFailed as error:
        assert "bad row" in str(error), error
    assert not os.path.exists(f"{sys.argv[1]}/{engine}")
spark.stop()
print("done")
"""


def test_write_through_connect(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", STORY, str(tmp_path)], check=False, capture_output=True, text=True, timeout=280)
    assert ran.stdout.strip().endswith("done"), ran.stderr[-3000:]
