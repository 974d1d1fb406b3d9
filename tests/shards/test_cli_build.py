"""`lakewright shards build` of a table, and what the other commands then find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from lakewright.cli.main import app
from lakewright.lake import Lake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["shards", *arguments], catch_exceptions=False)


def test_build_from_a_table(spark: Any, lake: Lake, tmp_path: Path) -> None:
    users = lake.create_table("crm.users", "id bigint, name string, region string", key="id")
    users.insert(spark.range(100).selectExpr("id", "concat('user-', id) as name", "if(id % 2 = 0, 'eu', 'us') as region"))
    url, place = str(tmp_path / "users"), lake.location.removeprefix("file://")
    options = ("--lake", place, "--value", "name", "--value", "region", "--codec", "msgpack", "--num-shards", "4")
    assert "version 1 of" in run("build", "crm.users", url, *options).stdout
    assert json.loads(run("get", url, "42").stdout) == {"name": "user-42", "region": "eu"}
    users.delete("id = 42")
    again = run("build", "crm.users", url, *options).stdout
    assert "99 rows in 4 shards, 1 of them built and 3 carried over" in again
    assert run("get", url, "42").exit_code == 1 and "99 rows" in run("verify", url).stdout
    full = run("build", "crm.users", url, *options, "--full").stdout
    assert "4 of them built and 0 carried over" in full
    routed = ("--lake", place, "--value", "name", "--codec", "json", "--cel", "region", "--cel-column", "region", "--infer-routing-values", "--backend", "slatedb")
    assert "in 2 shards" in run("build", "crm.users", str(tmp_path / "by-region"), *routed).stdout
    assert json.loads(run("get", str(tmp_path / "by-region"), "7", "-r", "region=us").stdout) == {"name": "user-7"}
