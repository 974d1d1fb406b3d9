"""Writes on a disk that turns read-only, then on one that fills up. Run inside a mount namespace of its own by test_small_disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.errors import CatalogUnavailable, LakewrightError, PermissionRefused, StorageFull

SIZE_MIB = 16


def stored(root: Path) -> set[Path]:
    return {p for p in root.rglob("*") if p.is_file() and "runs" not in p.parts and not p.name.startswith("catalog.db")}


def refused(table: Any, df: Any, error: type[LakewrightError], **options: Any) -> None:
    """The write fails with this error, and the table and its files are as before."""
    root, before = Path(table.location.removeprefix("file://")), table.iceberg.metadata_location
    files, rows = stored(root), table.read().count()
    with pytest.raises(error, match=r"db\.t"):
        table.append(df, **options)
    assert table.refresh().iceberg.metadata_location == before
    assert stored(root) == files, stored(root) ^ files
    assert table.read().count() == rows


def main(folder: str) -> None:
    lake = lw.connect(f"{folder}/lake", progress="off")
    spark = lake.spark
    table = lake.create_table("db.t", "id bigint, text string")
    table.append(spark.range(3).selectExpr("id", "'x' AS text"))
    # Over itself, since files that are still open for writing would keep the disk from being turned.
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    lake.catalog.engine.dispose()
    for engine in ("native", "arrow"):
        refused(table, spark.range(1).selectExpr("id", "'y' AS text"), PermissionRefused, engine=engine)
    for call in (lambda: lake.create_table("db.u", "id bigint"), lambda: table.set_properties({"a": "b"})):
        with pytest.raises((PermissionRefused, CatalogUnavailable)):
            call()
    subprocess.run(["umount", "--lazy", folder], check=True)
    lake.catalog.engine.dispose()
    table.append(spark.range(1).selectExpr("id", "'y' AS text"))
    assert table.read().count() == 4
    # Random bytes do not compress: about 2 KiB a row, four times the disk.
    big = spark.range(0, SIZE_MIB * 2048, 1, 2).selectExpr("id", "concat_ws('', transform(sequence(1, 64), i -> uuid())) AS text")
    for engine in ("native", "arrow"):
        refused(table, big, StorageFull, engine=engine, row_group_limit=1000)
    print("as before")


if __name__ == "__main__":
    main(sys.argv[1])
