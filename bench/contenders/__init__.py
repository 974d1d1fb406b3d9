"""The contenders: the module that holds each one's jobs (`JOBS`: name of the job → class), and the interpreter that runs it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from bench.places import KEYED_PYTHON, PEER_PYTHON


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    python: Path = Path(sys.executable)


LAKEWRIGHT = Contender("lakewright", "bench.contenders.lakewright")
SPARK_PARQUET = Contender("spark-parquet", "bench.contenders.spark_parquet")
ICEBERG_RUNTIME = Contender("iceberg-runtime", "bench.contenders.iceberg_runtime", PEER_PYTHON)
LAKEWRIGHT_ROWS = Contender("lakewright", "bench.contenders.lakewright_rows")
LAKEWRIGHT_SQL = Contender("lakewright", "bench.contenders.lakewright_sql")
ICEBERG_ROWS = Contender("iceberg-runtime", "bench.contenders.iceberg_rows", PEER_PYTHON)
PYICEBERG = Contender("pyiceberg", "bench.contenders.pyiceberg")
DELTA_RS = Contender("delta-rs", "bench.contenders.delta_rs")
LAKEWRIGHT_KEYS = Contender("lakewright", "bench.contenders.lakewright_keys")
HUDI = Contender("hudi", "bench.contenders.hudi", KEYED_PYTHON)
PAIMON = Contender("paimon", "bench.contenders.paimon", KEYED_PYTHON)
PYICEBERG_KEYS = Contender("pyiceberg", "bench.contenders.pyiceberg_keys")
LAKEWRIGHT_SHARDS = Contender("lakewright", "bench.contenders.lakewright_shards")
SHARDS_FLOOR = Contender("floor", "bench.contenders.shards_floor")
LAKEWRIGHT_SHARD_READS = Contender("lakewright", "bench.contenders.lakewright_shard_reads")
