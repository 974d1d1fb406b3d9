"""Write the classes that a small lake makes Spark's JVM load into an archive, which later JVMs map instead of reading and checking jars.

A quarter of the CPU of a short-lived session goes that way, and the tests start dozens. A JVM that the archive does not fit leaves it alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def main(archive: Path) -> None:
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    from pyspark.sql.functions import col

    import lakewright as lw

    with tempfile.TemporaryDirectory() as folder:
        lake = lw.connect(folder, progress="off")
        spark = lake.spark
        table = lake.create_table("warm.up", "id long, version long, name string", key=["id"], ordering="version", partition_by=["bucket(2, id)"])
        for version in range(2):
            table.upsert(spark.range(10).select("id", (col("id") * 0 + version).alias("version"), col("id").cast("string").alias("name")))
        table.delete("id = 3")
        assert lake.sql("SELECT count(*) FROM warm.up").first()[0] == 9
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    if not archive.exists():
        print("no archive of classes was made; sessions of tests start more slowly without it")
        archive.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
