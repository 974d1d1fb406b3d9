"""`lakewright shards serve` under load on loopback, with publishes going on: python -m bench.serve_load [seconds] [connections].

Clients are processes of their own with connections that stay open, as wrk's. Nine requests of ten are single gets, one asks for
100 keys. Every answer is checked: the value belongs to a published version, and all of a multi-get to the one it names.
"""

from __future__ import annotations

import base64
import http.client
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from statistics import quantiles
from typing import Any

import pyarrow as pa

from bench.shard_snapshot import publish_version
from lakewright.shards.store import open_store

KEYS, SHARDS, PROCESSES, EVERY = 100_000, 8, 2, 3.0
SERVE = "from lakewright.cli.main import run; run()"


def main(seconds: float = 60.0, connections: int = 16) -> None:
    with tempfile.TemporaryDirectory(prefix="lakewright-load-") as folder:
        store = open_store(folder)
        publish_version(store, _rows(1), SHARDS)
        command = [sys.executable, "-c", SERVE, "shards", "serve", folder, "--port", "0", "--refresh-every", "0.5"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().rsplit(":", 1)[-1])
            context = multiprocessing.get_context("spawn")
            with context.Pool(PROCESSES) as pool:
                began = time.monotonic()
                asked = pool.starmap_async(load, [(port, seconds, connections // PROCESSES, number) for number in range(PROCESSES)])
                version = 1
                while time.monotonic() < began + seconds - EVERY:
                    time.sleep(EVERY)
                    version += 1
                    publish_version(store, _rows(version), SHARDS)
                results = asked.get()
            last = json.loads(_get(port, "/health"))["version"]
        finally:
            service.terminate()
            service.wait(30)
    _report(results, seconds, connections, version, last)


def load(port: int, seconds: float, connections: int, seed: int) -> dict[str, Any]:
    """One client process: its connections take turns, each request sent before the answer to the one before it is read."""
    draw, until = random.Random(seed), time.monotonic() + seconds
    open_ones = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(connections)]
    waiting: list[tuple[str, int] | None] = [None] * connections
    took: dict[str, list[int]] = {"get": [], "multi-get": []}
    errors: list[str] = []
    versions: set[int] = set()
    while time.monotonic() < until:
        for number, connection in enumerate(open_ones):
            try:
                if (sent := waiting[number]) is not None:
                    kind, begin = sent
                    versions.add(_checked(kind, connection.getresponse()))
                    took[kind].append(time.perf_counter_ns() - begin)
                waiting[number] = (_ask(connection, draw), time.perf_counter_ns())
            except Exception as error:
                errors.append(repr(error))
                waiting[number] = None
                connection.close()
    return {"took": took, "errors": errors, "versions": sorted(versions)}


def _ask(connection: http.client.HTTPConnection, draw: random.Random) -> str:
    if draw.random() < 0.1:
        connection.request("POST", "/multi-get", json.dumps({"keys": [draw.randrange(KEYS) for _ in range(100)]}))
        return "multi-get"
    connection.request("GET", f"/get?key={draw.randrange(KEYS)}")
    return "get"


def _checked(kind: str, response: http.client.HTTPResponse) -> int:
    body = response.read()
    assert response.status == 200, (response.status, body)
    if kind == "get":
        return int(body[:10])
    answer = json.loads(body)
    found = {int(base64.b64decode(value)[:10]) for value in answer["values"]}
    assert found == {answer["version"]}, found
    return int(answer["version"])


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    return connection.getresponse().read()


def _rows(version: int) -> pa.Table:
    """Every value says its version, and has 100 bytes."""
    return pa.table({"id": pa.array(range(KEYS), pa.int64()), "payload": pa.array([f"{version:010d}".ljust(100, ".").encode()] * KEYS, pa.binary())})


def _report(results: list[dict[str, Any]], seconds: float, connections: int, published: int, served: int) -> None:
    errors = [error for result in results for error in result["errors"]]
    seen = sorted({version for result in results for version in result["versions"]})
    print(f"{connections} connections for {seconds:g} s, {published} versions published, {len(seen)} seen, {served} served at the end, {len(errors)} errors")
    for kind in ("get", "multi-get"):
        times = [nanoseconds for result in results for nanoseconds in result["took"][kind]]
        hundredths = quantiles(times, n=1000)
        p50, p99, p999 = (hundredths[place] / 1e6 for place in (499, 989, 998))
        print(f"{kind:10} {len(times) / seconds:8.0f} a second   p50 {p50:.2f} ms   p99 {p99:.2f} ms   p99.9 {p999:.2f} ms   most {max(times) / 1e6:.1f} ms")
    for error in errors[:10]:
        print(f"  {error}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main(*(type(text) for type, text in zip((float, int), sys.argv[1:], strict=False)))
