"""The HTTP service: what it answers, what it refuses, and that it goes on under load and publishes."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ShardError
from lakewright.shards.metrics import PrometheusMetrics
from lakewright.shards.routing import cel_routing
from lakewright.shards.serve import ServeConfig, ShardServer
from lakewright.shards.store import open_store
from lakewright.shards.values import codec_for
from tests.shards.snapshots import published

ROWS = {key: b"value %d" % key for key in range(50)}
Answer = tuple[int, Any]


@contextmanager
def serving(folder: Path, rows: Any = None, config: ServeConfig | None = None, **settings: Any) -> Iterator[ShardServer]:
    store = open_store(str(folder))
    published(store, ROWS if rows is None else rows, **settings)
    metrics = PrometheusMetrics()
    with lw.shards.open(store.url, metrics=metrics) as reader, ShardServer(reader, config or ServeConfig(port=0), metrics) as server:
        yield server


def ask(server: ShardServer, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        answer = response.read()
        return response.status, json.loads(answer) if response.headers["Content-Type"] == "application/json" else answer
    finally:
        connection.close()


def raw(server: ShardServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while some := connection.recv(65536):
            answer += some
    return answer


def test_gets(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert ask(server, "GET", "/get?key=7") == (200, b"value 7")
        assert ask(server, "GET", "/get?key=-7") == (404, {"error": "There is no such key."})
        assert ask(server, "POST", "/multi-get", {"keys": [1, 99, 2]}) == (200, {"version": 1, "values": [encoded(b"value 1"), None, encoded(b"value 2")]})
        assert ask(server, "POST", "/multi-get", {"keys": []}) == (200, {"version": 1, "values": []})
        published(open_store(str(tmp_path)), {7: b"new"})
        server.reader.refresh()
        assert ask(server, "GET", "/get?key=7") == (200, b"new")
        assert ask(server, "POST", "/multi-get", {"keys": [7]}) == (200, {"version": 2, "values": [encoded(b"new")]})


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_what_is_served(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        ask(server, "GET", "/get?key=1")
        status, info = ask(server, "GET", "/info")
        assert status == 200 and (info["version"], info["rows"], info["shards"]) == (1, 50, 4)
        assert ask(server, "GET", "/health") == (200, {"status": "ok", "version": 1})
        status, text = ask(server, "GET", "/metrics")
        assert status == 200 and b"lakewright_shards_gets_total 1\n" in text and b"lakewright_shards_requests_total 4\n" in text


@pytest.mark.parametrize(("key_type", "keys"), [("str", ["", "a b", "żółć", "a/b?c&d=e%"]), ("bytes", [b"", b"\0\xff?", b"abc"])])
def test_keys_that_are_text_and_bytes(key_type: Any, keys: list[Any], tmp_path: Path) -> None:
    rows = {key: b"v%d" % number for number, key in enumerate(keys)}
    with serving(tmp_path, rows, key_type=key_type) as server:
        shown = [key if isinstance(key, str) else base64.urlsafe_b64encode(key).decode() for key in keys]
        assert [ask(server, "GET", f"/get?key={quote(key, safe='')}")[1] for key in shown] == list(rows.values())
        assert ask(server, "POST", "/multi-get", {"keys": shown})[1]["values"] == [encoded(value) for value in rows.values()]


def test_records_are_json(tmp_path: Path) -> None:
    batch = pa.record_batch({"name": ["Ada"], "photo": [b"\0"]})
    codec = codec_for("msgpack", ["name", "photo"], batch.schema)
    with serving(tmp_path, {1: codec.encode(batch)[0].as_py()}, codec=codec) as server:
        record = {"name": "Ada", "photo": "AA=="}
        assert ask(server, "GET", "/get?key=1") == (200, record)
        assert ask(server, "POST", "/multi-get", {"keys": [1]}) == (200, {"version": 1, "values": [record]})


def test_routing_columns(tmp_path: Path) -> None:
    routing = cel_routing("region == 'eu' && premium ? 0 : level", key_column="key", key_type="int", columns={"region": pa.string(), "premium": pa.bool_(), "level": pa.int64()}, num_shards=3)
    with serving(tmp_path, {1: b"one"}, routing=routing, columns={"region": ["eu"], "premium": [False], "level": [2]}) as server:
        assert ask(server, "GET", "/get?key=1&region=eu&premium=false&level=2") == (200, b"one")
        assert ask(server, "GET", "/get?key=1&region=eu&premium=TRUE&level=2")[0] == 404
        assert ask(server, "POST", "/multi-get", {"keys": [1], "routing": {"region": "us", "premium": True, "level": 2}})[1]["values"] == [encoded(b"one")]
        for query in ("key=1", "key=1&region=eu", "key=1&region=eu&premium=maybe&level=2", "key=1&region=eu&premium=true&level=x", "key=1&region=us&premium=false&level=9", "key=1&colour=red"):
            assert ask(server, "GET", f"/get?{query}")[0] == 400, query
        for body in ({"keys": [1]}, {"keys": [1], "routing": {"region": 5, "premium": True, "level": 1}}, {"keys": [1], "routing": [1]}):
            assert ask(server, "POST", "/multi-get", body)[0] == 400, body


@pytest.mark.parametrize("query", ["", "?", "?key=", "?key=abc", "?key=1.0", "?key=%20 1".replace(" ", "+"), "?key=9223372036854775808", "?key=1&key=2", "?key=1_0", "?key=%D9%A1", "?kee=1", "?key=1&x=2", "?key=%FF", "?&&", "?key=" + "9" * 5000])
def test_bad_keys(query: str, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        status, answer = ask(server, "GET", f"/get{query}")
        assert status == 400 and answer["error"]
        assert ask(server, "GET", "/get?key=1") == (200, b"value 1")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b'{"keys": 1}', b'{"keys": "12"}', b"{}", b'{"keys": [null]}', b'{"keys": ["1"]}', b'{"keys": [1.5]}', b'{"keys": [true]}', b'{"keys": [[1]]}', b'{"keys": [{}]}', b'{"keys": [1e400]}', b'{"keys": [9223372036854775808]}', b'{"keys": [1, "a"]}', b"\xff\xfe", b"[" * 100_000, b'{"keys": [' + b"9" * 5000 + b"]}"],
    ids=lambda body: repr(body[:24]),
)
def test_bad_bodies(body: bytes, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        status, answer = ask(server, "POST", "/multi-get", body)
        assert status == 400 and answer["error"]


def test_limits(tmp_path: Path) -> None:
    with serving(tmp_path, config=ServeConfig(port=0, max_body_bytes=1000, max_keys=10)) as server:
        assert ask(server, "POST", "/multi-get", {"keys": [1] * 11})[0] == 413
        assert ask(server, "POST", "/multi-get", b" " * 1001)[0] == 413
        assert ask(server, "POST", "/multi-get", {"keys": [1]}, Content_Length="99999999999")[0] == 413
        assert ask(server, "POST", "/multi-get", {"keys": [1]}, Content_Length="-1")[0] == 413
        assert b" 411 " in raw(server, b"POST /multi-get HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 411 " in raw(server, b"POST /multi-get HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert b" 414 " in raw(server, b"GET /get?key=" + b"1" * 70_000 + b" HTTP/1.1\r\n\r\n")
        assert b" 431 " in raw(server, b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n")
        assert b" 400 " in raw(server, b"nonsense\r\n\r\n")
        assert ask(server, "GET", "/health")[0] == 200


def test_a_body_that_was_refused_is_not_the_next_request(tmp_path: Path) -> None:
    smuggled = b"GET /get?key=1 HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(tmp_path, config=ServeConfig(port=0, max_body_bytes=10)) as server:
        for first in (b"POST /multi-get", b"GET /info", b"POST /nowhere"):
            request = first + b" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled) + smuggled
            assert raw(server, request).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 404), ("GET", "/get/1", 404), ("GET", "/../etc/passwd", 404), ("POST", "/get?key=1", 405), ("GET", "/multi-get", 405), ("DELETE", "/get?key=1", 501), ("PUT", "/multi-get", 501)])
def test_what_is_not_served(method: str, path: str, status: int, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert ask(server, method, path)[0] == status


def test_tokens(tmp_path: Path) -> None:
    with serving(tmp_path, config=ServeConfig(port=0, token="s3cret-ż")) as server:
        right = "Bearer s3cret-ż".encode().decode("latin-1")
        for wrong in ("", "Bearer", "Bearer ", "Bearer wrong", "Bearer s3cret", "Basic s3cret", "s3cret", right + "x"):
            for method, path in (("GET", "/get?key=1"), ("GET", "/info"), ("GET", "/metrics"), ("POST", "/multi-get"), ("GET", "/nowhere")):
                status, answer = ask(server, method, path, None, **({"Authorization": wrong} if wrong else {}))
                assert (status, "key" in str(answer)) == (401, False)
        assert ask(server, "GET", "/get?key=1", Authorization=right) == (200, b"value 1")
        assert ask(server, "POST", "/multi-get", {"keys": [1]}, Authorization=right)[0] == 200
        assert ask(server, "GET", "/health")[0] == 200
    with serving(tmp_path / "ascii", config=ServeConfig(port=0, token="abc")) as server:
        assert ask(server, "GET", "/get?key=1", Authorization="bearer abc")[0] == 200


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    assert ServeConfig().host == "127.0.0.1"
    with serving(tmp_path) as server:
        with pytest.raises(ShardError, match="Choose another port"):
            ShardServer(server.reader, ServeConfig(port=server.port))
        with pytest.raises(ShardError, match="token is empty"):
            ShardServer(server.reader, ServeConfig(port=0, token=""))


def test_a_connection_is_kept_for_the_next_request(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", "/get?key=1")
        connection.getresponse().read()
        socket_used = connection.sock
        for path in ("/get?key=abc", "/nowhere", "/get?key=2"):
            connection.request("GET", path)
            connection.getresponse().read()
        assert connection.sock is socket_used
        connection.close()


def test_too_many_and_silent_connections(tmp_path: Path) -> None:
    with serving(tmp_path, config=ServeConfig(port=0, max_connections=2, timeout=3)) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(2)]
        assert raw(server, b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503")  # accepted after the two
        assert raw(server, b"POST /multi-get HTTP/1.1\r\n\r\n" + b" " * 100_000).startswith(b"HTTP/1.1 503")
        assert [connection.recv(1) for connection in silent] == [b"", b""]  # hung up on after the timeout
        assert ask(server, "GET", "/health")[0] == 200
        for connection in silent:
            connection.close()


def test_a_snapshot_that_cannot_be_read_is_a_clean_500(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for file in open_store(str(tmp_path)).list("shards"):
            (tmp_path / file.path).unlink()
        status, answer = ask(server, "GET", "/get?key=1")
        assert status == 500 and str(tmp_path) not in answer["error"]
        assert ask(server, "GET", "/health")[0] == 200


def test_load_with_publishes_going_on(tmp_path: Path) -> None:
    """The minute of `bench/serve_load.py` in small: no request fails, no answer mixes versions."""
    keys, failures, asked = list(range(100)), [], [0] * 8
    store = open_store(str(tmp_path))
    published(store, dict.fromkeys(keys, b"1"))
    done = threading.Event()
    with lw.shards.open(store.url, refresh_every=0.05) as reader, ShardServer(reader, ServeConfig(port=0)) as server:

        def load(who: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            try:
                while not done.is_set():
                    connection.request("GET", f"/get?key={(who + asked[who]) % 100}")
                    response = connection.getresponse()
                    assert (response.status, response.read().isdigit()) == (200, True)
                    connection.request("POST", "/multi-get", json.dumps({"keys": keys}))
                    answer = json.loads(connection.getresponse().read())
                    assert set(answer["values"]) == {encoded(b"%d" % answer["version"])}
                    asked[who] += 1
            except Exception as error:
                failures.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=load, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for number in range(2, 12):
            published(store, dict.fromkeys(keys, b"%d" % number))
            time.sleep(0.1)
        deadline = time.monotonic() + 20
        while reader.version != 11 and time.monotonic() < deadline:
            time.sleep(0.02)
        done.set()
        for thread in threads:
            thread.join()
        assert failures == [] and min(asked) > 0 and reader.version == 11
