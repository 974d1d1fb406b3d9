"""`lakewright shards …` on snapshots written without Spark."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

from lakewright.cli.main import app
from lakewright.errors import InvalidOption, InvalidRouting, InvalidShardKey, SnapshotNotFound
from lakewright.shards.routing import cel_routing, shard_of
from lakewright.shards.store import Store, open_store
from lakewright.shards.values import codec_for
from tests.shards.snapshots import published

ROOT = Path(__file__).parents[2]
ROWS = {key: b"value %d" % key for key in range(20)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(str(tmp_path / "users"))
    published(store, ROWS)
    return store


def run(*arguments: str, **settings: Any) -> Result:
    return CliRunner().invoke(app, ["shards", *arguments], **settings)


def test_gets(store: Store) -> None:
    assert run("get", store.url, "7").stdout == "value 7\n"
    missing = run("get", store.url, "99")
    assert missing.exit_code == 1 and missing.stdout == "" and "no key 99" in missing.stderr
    lines = [json.loads(line) for line in run("multiget", store.url, "1", "--", "-5").stdout.splitlines()]
    assert lines == [{"key": 1, "value": base64.b64encode(b"value 1").decode()}, {"key": -5, "value": None}]
    assert len(run("multiget", store.url, "-", input="1\n2\n3\n").stdout.splitlines()) == 3
    shard = shard_of(7, 4)
    assert run("route", store.url, "7").stdout.startswith(f"{shard} shards/run_id=")
    assert json.loads(run("info", store.url).stdout)["rows"] == 20


def test_keys_and_values_of_other_kinds(tmp_path: Path) -> None:
    batch = pa.record_batch({"name": ["Żaneta"]})
    codec = codec_for("json", ["name"], batch.schema)
    routing = cel_routing("region", key_column="key", key_type="bytes", columns={"region": pa.string()}, values=["eu", "us"])
    store = open_store(str(tmp_path))
    published(store, {b"\xff": codec.encode(batch)[0].as_py()}, key_type="bytes", codec=codec, routing=routing, columns={"region": ["eu"]})
    assert json.loads(run("get", store.url, "_w==", "-r", "region=eu").stdout) == {"name": "Żaneta"}
    assert json.loads(run("multiget", store.url, "_w==", "--routing", "region=eu").stdout) == {"key": "_w==", "value": {"name": "Żaneta"}}
    assert run("route", store.url, "_w==", "-r", "region=us").stdout == "1 (empty)\n"


def test_versions(store: Store) -> None:
    published(store, dict.fromkeys(ROWS, b"new"))
    shown = run("history", store.url, env={"COLUMNS": "200"}).stdout
    assert re.search(r"1 +published", shown) and re.search(r"2 +current", shown)
    assert run("rollback", store.url).stdout == "version 1 is current\n"
    assert run("get", store.url, "7").stdout == "value 7\n"
    assert run("rollback", store.url, "--version", "2").stdout == "version 2 is current\n"
    assert "version 2 is whole: 20 rows in 4 shards" in run("verify", store.url).stdout
    assert "version 1 is whole" in run("verify", store.url, "-v", "1").stdout


def test_verify_and_cleanup(store: Store) -> None:
    published(store, dict.fromkeys(ROWS, b"new"))
    said = run("cleanup", store.url, "--keep", "1")
    assert "1 versions" in said.stderr and "would go" in said.stderr and len(list(store.list("manifests"))) == 2
    done = run("cleanup", store.url, "--keep", "1", "--delete")
    assert done.exit_code == 0 and "removed" in done.stderr and len(list(store.list("manifests"))) == 1
    victim = next(file.path for file in store.list("shards") if "db=00000" in file.path and store.exists(file.path))
    for file in store.list("shards"):
        Path(store.full(file.path)).write_bytes(b"damaged")
    found = run("verify", store.url)
    assert victim and found.exit_code == 1 and "bytes instead of" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("get", "URL", "abc"), InvalidShardKey),
        (("get", "URL", "1", "-r", "region=eu"), InvalidRouting),
        (("get", "URL", "1", "-r", "region"), InvalidOption),
        (("info", "URL/nowhere"), SnapshotNotFound),
        (("info", "URL", "-s", "=x"), InvalidOption),
        (("rollback", "URL"), SnapshotNotFound),
    ],
)
def test_mistakes_are_typed(arguments: tuple[str, ...], error: type[Exception], store: Store) -> None:
    result = run(*(argument.replace("URL", store.url) for argument in arguments))
    assert result.exit_code != 0 and isinstance(result.exception, error)


def test_serve(store: Store, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    command = [sys.executable, "-c", "from lakewright.cli.main import run; run()", "shards", "serve", store.url, "--port", "0", "--token-file", str(tmp_path / "token"), "--refresh-every", "0.1"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ})
    try:
        assert service.stdout is not None
        address = service.stdout.readline().rsplit(" ", 1)[-1].strip()
        assert address.startswith("http://127.0.0.1:")
        request = urllib.request.Request(f"{address}/get?key=7", headers={"Authorization": "Bearer s3cret"})
        assert urllib.request.urlopen(request, timeout=20).read() == b"value 7"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{address}/get?key=7", timeout=20)
        assert json.load(urllib.request.urlopen(f"{address}/health", timeout=20)) == {"status": "ok", "version": 1}
    finally:
        service.send_signal(signal.SIGTERM)
        rest, errors = service.communicate(timeout=30)
    assert (service.returncode, rest, errors) == (0, "stopped\n", "")
