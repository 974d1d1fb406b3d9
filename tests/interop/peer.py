"""The client of the peer process: tables as the Iceberg Spark runtime sees them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.services.jars import PEER_PYTHON, jar_set
from tests.interop.services.process import STOP_WITHIN_SECONDS, ServiceFailed


class PeerError(RuntimeError):
    """The Iceberg Spark runtime refused a request."""


class Peer:
    def __init__(self, child: subprocess.Popen[str], log: Path) -> None:
        self._child = child
        self._log = log
        self._answer()

    def catalog(self, name: str, properties: Mapping[str, str]) -> None:
        self._ask("catalog", name=name, properties=dict(properties))

    def read(self, table: str, **options: str) -> pa.Table:
        return self._rows(self._ask("read", table=table, options={key.replace("_", "-"): value for key, value in options.items()}))

    def sql(self, statement: str) -> pa.Table:
        return self._rows(self._ask("sql", statement=statement))

    def query(self, statement: str) -> tuple[Any, pa.Table]:
        """The schema, as Spark writes it in JSON, and the rows."""
        schema, path = self._ask("query", statement=statement)
        return schema, self._rows(path)

    def equality_delete(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], partition_of: Mapping[str, Any] | None = None) -> None:
        self._ask("equality_delete", table=table, columns=list(columns), rows=[list(row) for row in rows], partition_of=partition_of)

    def sketches(self, path: str) -> dict[str, tuple[str, float, str]]:
        """What a statistics file holds, as the runtime reads it: by field id a sketch's bytes, its estimate and the number beside it."""
        found: dict[str, list[Any]] = self._ask("sketches", path="/" + path.removeprefix("file:").lstrip("/"))
        return {field: (sketch, estimate, number) for field, (sketch, estimate, number) in found.items()}

    def _ask(self, verb: str, **arguments: Any) -> Any:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"verb": verb, "arguments": arguments}) + "\n")
        self._child.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise ServiceFailed("The peer process ended.\n" + "\n".join(self._log.read_text(errors="replace").splitlines()[-40:]))
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"] + "\n" + answer["trace"])
        return answer["result"]

    @staticmethod
    def _rows(path: str) -> pa.Table:
        with pa.memory_map(path) as source:
            rows = pa.ipc.open_file(source).read_all()
        return rows


@contextmanager
def peer_process(folder: Path) -> Iterator[Peer]:
    if not PEER_PYTHON.exists():
        raise ServiceFailed(f"{PEER_PYTHON} is missing; run the suite with `make interop`, which makes it.")
    command = [str(PEER_PYTHON), str(Path(__file__).with_name("peer_process.py")), str(folder), *map(str, jar_set("peer"))]
    own = {"PYSPARK_PYTHON": str(PEER_PYTHON), "AWS_REGION": "us-east-1"}
    environment = {**{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS")}, **own}
    log = folder / "peer.log"
    with log.open("wb") as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=folder)
    try:
        yield Peer(child, log)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
