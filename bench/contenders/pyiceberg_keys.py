"""PyIceberg's upsert: Arrow on one machine, copy-on-write, in format 2."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.transforms import IdentityTransform

from bench.contenders.keyed import KeyedTable
from bench.job import Job
from bench.keyed_data import KEY, PARTITION
from bench.many_files import fresh_catalog

NAME = "bench.orders"


class PyIcebergKeys(KeyedTable):
    """It knows no ordering column; no change of the cases is older than its row."""

    def create(self) -> None:
        catalog = fresh_catalog(self.live)
        catalog.create_namespace("bench")
        self.table = catalog.create_table(NAME, pq.read_schema(self.files[0]), properties={"write.parquet.compression-codec": "zstd"})
        with self.table.update_spec() as spec:
            spec.add_field(PARTITION, IdentityTransform(), PARTITION)

    def load(self) -> None:
        self.table.append(pq.ParquetDataset(self.files).read())

    def reopen(self) -> None:
        self.table = fresh_catalog(self.live).load_table(NAME)

    def upsert(self) -> None:
        self.table.upsert(pq.ParquetDataset(self.changes).read(), join_cols=[KEY])

    def read(self) -> None:
        for _ in self.table.scan().to_arrow_batch_reader():
            pass

    def facts(self) -> dict[str, Any]:
        rows = self.table.scan(selected_fields=(KEY, "version", "price", "note")).to_arrow()
        return {
            "rows": rows.num_rows, "keys": pc.count_distinct(rows[KEY]).as_py(), "key_sum": pc.sum(rows[KEY]).as_py(),
            "versions": pc.sum(rows["version"]).as_py(), "prices": str(pc.sum(rows["price"]).as_py()), "notes": pc.count(rows["note"]).as_py(),
        }


JOBS: dict[str, type[Job]] = {"upsert": PyIcebergKeys}
