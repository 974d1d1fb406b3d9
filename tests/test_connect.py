"""The same verbs over Spark Connect, in a process of its own: a Connect client and a classic session do not share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

STORY = """
import json, sys
from pyspark.sql import SparkSession
import lakewright as lw

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
before = dict(spark.conf.getAll)
lake = lw.connect(sys.argv[1], spark=spark, progress="off")
rows = spark.createDataFrame([(1, "eu", 1.5), (2, "us", 2.5), (3, None, float("nan"))], "id bigint, region string, fare double")
t = lake.create_table("n.t", rows.schema, partition_by=["region", "bucket(4, id)"], sort_by=["id desc"])
t.append(rows)
t.append(rows, engine="arrow", distribution_mode="hash")
t.overwrite(rows.filter("region = 'eu'"), where="region = 'eu'")
t.overwrite_partitions(rows.filter("region = 'us'"))
t.evolve_schema(rename={"fare": "total"})
found = sorted(tuple(map(str, row)) for row in t.read().collect())
pruned = t.read("region = 'us'").count()
places = t.read(metadata=True).select("_partition").distinct().count()
for engine in ("native", "arrow"):
    try:
        t.append(rows.selectExpr("if(id = 2, raise_error('bad row'), id) as id", "region", "fare as total"), engine=engine)
        raise AssertionError("a bad row was taken")
    except lw.errors.WriteFailed as error:
        assert "bad row" in str(error), error
assert dict(spark.conf.getAll) == before, "the session's settings changed"
changed = {}
for mode in ("copy-on-write", "merge-on-read"):
    options = {f"write.{command}.mode": mode for command in ("delete", "update", "merge")}
    m = lake.create_table("n." + mode[:4], "id bigint, word string", format_version=3, properties=options)
    m.append(spark.range(10).selectExpr("id", "'old' as word"))
    m.delete("id = 0")
    m.update({"word": "concat(word, id)"}, where="id < 3")
    source = spark.createDataFrame([(3, "new"), (4, "gone"), (20, "new")], "id bigint, word string")
    merge = m.merge(source, on="t.id = s.id").when_matched_delete("s.word = 'gone'").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    changed[mode] = sorted(map(tuple, m.read("word <> 'old'").collect()))
    changed[mode] += [m.read().count(), m.read(metadata=True).select("_row_id").distinct().count()]
    try:
        m.merge(source.unionAll(source), on="t.id = s.id").when_matched_update_all().execute()
        raise AssertionError("a row was matched twice")
    except lw.errors.MultipleMatches as error:
        assert "id = 20" in str(error) or "id = 3" in str(error), error
assert dict(spark.conf.getAll) == before, "the session's settings changed"
lake.sql("CREATE TABLE n.s (id bigint, region string) PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '3'); INSERT INTO n.s VALUES (1, 'eu'), (2, 'us')")
lake.sql("CREATE TEMP VIEW us AS SELECT id FROM n.s WHERE region = :r", {"r": "us"})
source = spark.createDataFrame([(2, "eu"), (3, "us")], "id bigint, region string")
lake.sql("MERGE INTO n.s USING source ON s.id = source.id WHEN MATCHED THEN UPDATE SET region = source.region WHEN NOT MATCHED THEN INSERT *", source=source)
lake.sql("DELETE FROM n.s WHERE id IN (SELECT min(id) FROM n.s)")
lake.sql("UPDATE n.s SET region = concat(region, (SELECT count(*) FROM n.s)) WHERE EXISTS (SELECT 1 FROM us WHERE us.id = s.id)")
query = lake.sql("WITH q AS (SELECT * FROM n.s) SELECT q.id, q.region, '{}' AS braces FROM q LEFT JOIN source ON q.id = source.id ORDER BY q.id", source=source)
spoken = [list(row) for row in query.collect()]
plan = lake.sql("EXPLAIN SELECT * FROM n.s WHERE region = 'eu'").first()[0]
assert "Read n.s: 1 of 2 files" in plan and "== Physical Plan ==" in plan, plan
lake.sql("ANALYZE TABLE n.s COMPUTE STATISTICS")
try:
    lake.sql("SELECT id, nothing FROM n.s").collect()
    raise AssertionError("a column that is not there was read")
except Exception as error:  # Connect may resolve it only when rows are asked for, and then the error is Spark's
    assert "nothing" in str(error), error
print(json.dumps({"sql": spoken, "rows": found, "pruned": pruned, "partitions": places, "history": t.history().count(), "changed": changed}))
"""


def test_the_verbs_work_over_connect(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("SPARK_REMOTE", "MASTER")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", STORY, str(tmp_path / "lake")], capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    expected = [("1", "eu", "1.5"), ("2", "us", "2.5"), ("3", "None", "nan"), ("3", "None", "nan")]
    changed = [[1, "old1"], [2, "old2"], [3, "new"], [20, "new"], 9, 9]
    assert told.pop("sql") == [[2, "eu", "{}"], [3, "us2", "{}"]]
    assert told.pop("changed") == {"copy-on-write": changed, "merge-on-read": changed}
    assert told == {"rows": [list(row) for row in sorted(expected)], "pruned": 1, "partitions": 3, "history": 4}
