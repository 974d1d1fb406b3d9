"""`lakewright shards …`: sharded key-value snapshots on the command line. Only `build` needs Spark."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakewright.errors import InvalidOption

if TYPE_CHECKING:
    from lakewright.shards.keys import Key
    from lakewright.shards.reader import ShardReader

TOKEN_VARIABLE = "LAKEWRIGHT_SHARDS_TOKEN"
app = typer.Typer(no_args_is_help=True, help="Sharded key-value snapshots: build them with Spark, read and serve them without.")
Url = Annotated[str, typer.Argument(help="Where the snapshot is: a folder, or a URL like s3://bucket/users.")]
Storage = Annotated[list[str] | None, typer.Option("--storage", "-s", help="A setting of the store, like s3.endpoint=http://…; may be given again.")]
Routing = Annotated[list[str] | None, typer.Option("--routing", "-r", help="A column the snapshot is routed by, like region=eu; may be given again.")]
VersionOption = Annotated[int | None, typer.Option("--version", "-v", help="Another version than the current one.")]


@app.command()
def build(
    table: Annotated[str, typer.Argument(help="Table name, like nyc.trips.")],
    url: Url,
    lake: Annotated[str, typer.Option("--lake", "-l", help="Folder, location or configured name of the lake.")] = "lake",
    key: Annotated[str | None, typer.Option(help="Column of the key; the table's own key unless given.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="Binary column of the value, or several columns; may be given again.")] = None,
    codec: Annotated[str | None, typer.Option(help="How several columns are packed: json, msgpack or avro.")] = None,
    num_shards: Annotated[int | None, typer.Option(help="Number of shards.")] = None,
    max_keys_per_shard: Annotated[int | None, typer.Option(help="Most keys of a shard, on average, instead of their number.")] = None,
    backend: Annotated[str | None, typer.Option(help="sqlite or slatedb.")] = None,
    cel: Annotated[str | None, typer.Option(help="Expression that routes rows, instead of the key's hash.")] = None,
    cel_column: Annotated[list[str] | None, typer.Option(help="Column the expression uses; may be given again.")] = None,
    infer_routing_values: Annotated[bool, typer.Option("--infer-routing-values", help="Each distinct result of the expression is a shard.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Build every shard anew, also those without changes.")] = False,
    storage: Storage = None,
) -> None:
    """Publish a table as a snapshot; only shards with changes since the last time are built."""
    from lakewright.shards.incremental import build_from_table

    options: dict[str, Any] = {
        "key": key,
        "value": None if not value else value[0] if len(value) == 1 and codec is None else value,
        "codec": codec,
        "num_shards": num_shards,
        "max_keys_per_shard": max_keys_per_shard,
        "backend": backend,
        "cel": cel,
        "cel_columns": cel_column or None,
        "infer_routing_values": infer_routing_values or None,
        "full": full or None,
        "storage": _settings(storage) or None,
    }
    result = build_from_table(lake, table, url, **options)
    typer.echo(f"version {result.version} of {url}: {result.rows} rows in {len(result.shards)} shards, {result.shards_rebuilt} of them built and {result.shards_carried} carried over")


@app.command()
def info(url: Url, storage: Storage = None) -> None:
    """Show what is published, as JSON."""
    with _opened(url, storage) as reader:
        typer.echo(json.dumps(reader.info(), indent=2))


@app.command()
def get(url: Url, key: Annotated[str, typer.Argument(help="The key; one of bytes in base64.")], routing: Routing = None, storage: Storage = None) -> None:
    """Show the value of a key: bytes as they are, records as JSON."""
    with _opened(url, storage) as reader:
        value = reader.get(_key(reader, key), _columns(reader, routing))
    if value is None:
        typer.echo(f"There is no key {key} in {url}.", err=True)
        raise typer.Exit(1)
    typer.echo(value if isinstance(value, bytes) else _json(value))


@app.command()
def multiget(
    url: Url,
    keys: Annotated[list[str], typer.Argument(help="Keys; - reads them from standard input, one in a line.")],
    routing: Routing = None,
    storage: Storage = None,
) -> None:
    """Show the values of several keys, a line of JSON for each; bytes in base64, null where there is none."""
    texts = sys.stdin.read().splitlines() if keys == ["-"] else keys
    with _opened(url, storage) as reader:
        asked = [_key(reader, text) for text in texts]
        values = reader.multi_get(asked, _columns(reader, routing))
    for text, key in zip(texts, asked, strict=True):
        typer.echo(_json({"key": key if isinstance(key, int) else text, "value": values[key]}))


@app.command()
def route(url: Url, key: Annotated[str, typer.Argument(help="The key; one of bytes in base64.")], routing: Routing = None, storage: Storage = None) -> None:
    """Show which shard a key is looked for in, and where that is."""
    with _opened(url, storage) as reader:
        shard = reader.shard_of(_key(reader, key), _columns(reader, routing))
        typer.echo(f"{shard} {reader.manifest.shards[shard].path or '(empty)'}")


@app.command()
def history(url: Url, storage: Storage = None) -> None:
    """Show the versions that are stored, oldest first."""
    from lakewright.cli.output import grid
    from lakewright.shards.store import open_store
    from lakewright.shards.versions import versions

    shown = []
    for version in versions(open_store(url, _settings(storage))):
        manifest = version.manifest
        state = "current" if version.is_current else "published" if version.was_published else "never current"
        counts = [str(manifest.rows), str(manifest.num_shards), str(manifest.bytes), str(manifest.source_snapshot_id or "")] if manifest else ["", "", "", ""]
        made = f"{datetime.fromtimestamp(version.created_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if manifest else str(version.problem)
        shown.append([str(version.version), state, made, *counts, version.run_id])
    grid(["version", "state", "made", "rows", "shards", "bytes", "source snapshot", "run"], shown)


@app.command()
def rollback(url: Url, version: VersionOption = None, storage: Storage = None) -> None:
    """Make an older version current again; the one before the current unless named."""
    from lakewright.shards import rollback as roll_back

    typer.echo(f"version {roll_back(url, version, storage=_settings(storage)).version} is current")


@app.command()
def cleanup(
    url: Url,
    keep: Annotated[int, typer.Option(help="How many of the newest versions stay.")] = 10,
    older_than_hours: Annotated[float | None, typer.Option(help="Versions younger than this stay, too.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; otherwise it is only said what would go.")] = False,
    run_registry_prefix: Annotated[str, typer.Option(help="Folder of the run records.")] = "runs",
    storage: Storage = None,
) -> None:
    """Remove old versions, and what failed or dead builds left."""
    from lakewright.shards import cleanup as clean_up

    older = None if older_than_hours is None else timedelta(hours=older_than_hours)
    result = clean_up(url, keep=keep, older_than=older, dry_run=not delete, run_registry_prefix=run_registry_prefix, storage=_settings(storage))
    for path in (*result.manifests, *result.files):
        typer.echo(path)
    verb = "removed" if delete else "would go"
    typer.echo(f"{len(result.manifests)} versions and {len(result.files)} files of {result.bytes} bytes {verb}; {len(result.kept_versions)} versions stay", err=True)
    if result.unknown_runs:
        typer.echo(f"left, since no run record tells of them: {', '.join(result.unknown_runs)}", err=True)
    if result.failed:
        typer.echo(f"{len(result.failed)} could not be removed; the log tells why", err=True)
        raise typer.Exit(1)


@app.command()
def verify(url: Url, version: VersionOption = None, storage: Storage = None) -> None:
    """Read a version whole: checksums, counts, and that each key lies in its shard."""
    from lakewright.shards import verify as check

    result = check(url, version, storage=_settings(storage))
    for problem in result.problems:
        typer.echo(problem, err=True)
    if not result.is_whole:
        raise typer.Exit(1)
    routing = "" if result.routing_checked else "; the routing needs more columns than the key and was not checked"
    typer.echo(f"version {result.version} is whole: {result.rows} rows in {result.shards} shards, {result.bytes} bytes{routing}")


@app.command()
def serve(
    url: Url,
    host: Annotated[str, typer.Option(help="Address to listen at; only this machine unless given.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8080,
    token_file: Annotated[Path | None, typer.Option(help=f"File with the bearer token to ask for; or set {TOKEN_VARIABLE}.")] = None,
    refresh_every: Annotated[float, typer.Option(help="Look for a newer version so often, in seconds.")] = 5.0,
    eager: Annotated[bool, typer.Option("--eager", help="Open every shard at the start.")] = False,
    cache_dir: Annotated[str | None, typer.Option(help="Folder for copies of shards that are not on this machine; a temporary one unless given.")] = None,
    cache_bytes: Annotated[int, typer.Option(help="Most bytes of copies.")] = 10 << 30,
    max_body_bytes: Annotated[int, typer.Option(help="Largest body of a request.")] = 1 << 20,
    max_keys: Annotated[int, typer.Option(help="Most keys of a request.")] = 10_000,
    storage: Storage = None,
) -> None:
    """Answer gets over HTTP: /get?key=…, POST /multi-get, /info, /health and /metrics."""
    from lakewright.shards.metrics import PrometheusMetrics
    from lakewright.shards.reader import open_reader
    from lakewright.shards.serve import ServeConfig, ShardServer

    token = token_file.read_text().strip() if token_file else os.environ.get(TOKEN_VARIABLE)
    config, metrics = ServeConfig(host, port, token, max_body_bytes, max_keys), PrometheusMetrics()
    with (
        open_reader(url, storage=_settings(storage), cache_dir=cache_dir, cache_bytes=cache_bytes, eager=eager, refresh_every=refresh_every, metrics=metrics) as reader,
        ShardServer(reader, config, metrics) as server,
    ):
        if token is None and host not in ("127.0.0.1", "::1", "localhost"):
            typer.echo(f"Anyone who reaches {host} can read this: no token is set.", err=True)
        typer.echo(f"version {reader.version} of {url} is served at {server.address}")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.wait()
        except KeyboardInterrupt:
            typer.echo("stopped")


def _opened(url: str, storage: list[str] | None) -> ShardReader:
    from lakewright.shards.reader import open_reader

    return open_reader(url, storage=_settings(storage))


def _settings(given: list[str] | None) -> dict[str, str]:
    return dict(_pair(text, "--storage") for text in given or ())


def _columns(reader: ShardReader, given: list[str] | None) -> dict[str, Any] | None:
    from lakewright.shards.cel import columns_from_text

    return columns_from_text(dict(_pair(text, "--routing") for text in given or ()), reader.manifest.routing)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidOption(f"{option} is {text!r}; it takes name=value.")
    return name, value


def _key(reader: ShardReader, text: str) -> Key:
    from lakewright.shards.keys import key_from_text

    return key_from_text(text, reader.manifest.key_type)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=lambda other: base64.b64encode(other).decode() if isinstance(other, bytes) else str(other))
