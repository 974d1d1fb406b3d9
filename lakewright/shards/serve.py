"""A small HTTP service on a reader: gets, gets of many, and what is served.

    GET  /get?key=42&region=eu     the value: bytes as they are, records as JSON; 404 where there is none
    POST /multi-get                {"keys": [1, 2], "routing": {"region": "eu"}} → {"version": 3, "values": [...]} in the order of the keys
    GET  /info  /health  /metrics

Parameters of /get other than `key` are columns of the routing. Keys that are bytes are given in base64 for URLs, values that are
bytes inside JSON are base64. The standard library's server is used: one thread for each connection, which is kept open.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from lakewright import __version__
from lakewright.errors import InvalidRouting, InvalidShardKey, LakewrightError, ShardError
from lakewright.shards.cel import columns_from_text
from lakewright.shards.keys import key_from_text
from lakewright.shards.metrics import PrometheusMetrics
from lakewright.shards.reader import ShardReader

log = logging.getLogger("lakewright")
JSON, TEXT, BYTES = "application/json", "text/plain; version=0.0.4; charset=utf-8", "application/octet-stream"
LEAVING = 64  # connections turned away with an answer at a time, when all that may be open are; others are closed without one
PATIENCE = 2.0  # seconds given to a client that is turned away


@dataclass(frozen=True)
class ServeConfig:
    """`token`: asked for as `Authorization: Bearer …` by everything but /health. `timeout`: seconds a connection may keep silent."""

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    max_body_bytes: int = 1 << 20
    max_keys: int = 10_000
    max_connections: int = 512
    timeout: float = 30.0


class Refused(Exception):
    """A request answered with a status of 400 or above."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ShardServer:
    """Serves a reader until `close`, which leaves the reader open. Begins at once; `port` 0 takes a free one."""

    def __init__(self, reader: ShardReader, config: ServeConfig | None = None, metrics: PrometheusMetrics | None = None) -> None:
        self.reader, self.config, self.metrics = reader, config or ServeConfig(), metrics or PrometheusMetrics()
        if self.config.token == "":
            raise ShardError("The token is empty: leave it out, or set one.")
        try:
            self._server = _Server((self.config.host, self.config.port), self)
        except OSError as error:
            raise ShardError(f"{self.config.host}:{self.config.port} cannot be served at: {error.strerror}. Choose another port.") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="lakewright-shards-serve", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"http://{host}:{self.port}"

    def wait(self) -> None:
        self._thread.join()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def __enter__(self) -> ShardServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self, place: tuple[str, int], service: ShardServer) -> None:
        self.service = service
        self._open: set[socket.socket] = set()
        self._leaving = threading.BoundedSemaphore(LEAVING)
        self._lock = threading.Lock()
        if ":" in place[0]:
            self.address_family = socket.AF_INET6
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_full = len(self._open) >= self.service.config.max_connections
            if not is_full:
                self._open.add(request)
        if not is_full:
            super().process_request(request, client_address)
        elif self._leaving.acquire(blocking=False):
            threading.Thread(target=self._turn_away, args=(request,), name="lakewright-shards-full", daemon=True).start()
        else:
            super().shutdown_request(request)

    def _turn_away(self, request: socket.socket) -> None:
        """503, hanging up only when the client has: closed with bytes unread, a connection is reset and its answer may be lost."""
        try:
            request.settimeout(min(self.service.config.timeout, PATIENCE))
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            request.shutdown(socket.SHUT_WR)
            until = time.monotonic() + PATIENCE
            while request.recv(65536) and time.monotonic() < until:
                pass
        except OSError:
            pass  # gone or too slow, and not served anyway
        finally:
            super().shutdown_request(request)
            self._leaving.release()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection of %s broke", client_address, exc_info=True)

    def hang_up(self) -> None:
        """End connections that are kept open; each of their threads then leaves."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RD)
                except OSError:
                    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = f"lakewright/{__version__}", ""
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together

    @property
    def service(self) -> ShardServer:
        return cast(_Server, self.server).service

    def setup(self) -> None:
        self.request.settimeout(self.service.config.timeout)
        super().setup()

    def do_GET(self) -> None:
        self._answer({"/get": self._get, "/info": self._info, "/health": self._health, "/metrics": self._metrics})

    def do_POST(self) -> None:
        self._answer({"/multi-get": self._multi_get})

    def _answer(self, routes: Mapping[str, Callable[[], tuple[str, bytes]]]) -> None:
        self.service.metrics.increment("requests_total")
        status, kind, body = HTTPStatus.OK, JSON, b""
        try:
            path = urlsplit(self.path).path
            if path != "/health":
                self._check_token()
            if path not in routes:
                known = path in ("/get", "/info", "/health", "/metrics", "/multi-get")
                raise Refused(HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND, f"{self.command} {path[:200]} is not served.")
            kind, body = routes[path]()
        except Refused as refused:
            status, body = refused.status, _message(refused)
        except (InvalidShardKey, InvalidRouting) as error:
            status, body = HTTPStatus.BAD_REQUEST, _message(error)
        except LakewrightError as error:
            log.warning("%s %s could not be answered: %s", self.command, self.path[:200], error)
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, _message("The snapshot cannot be read; the log of the service tells more.")
        if status >= 400:
            self.service.metrics.increment("request_errors_total")
        if not self._body_read and (self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers):
            self.close_connection = True  # what is left of a body is not the next request
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    _body_read = False

    def _check_token(self) -> None:
        token = self.service.config.token
        if token is None:
            return
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        # Compared in constant time, so that answers do not tell how much of it was right.
        matches = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token.encode())
        if scheme.lower() != "bearer" or not matches:
            raise Refused(HTTPStatus.UNAUTHORIZED, "A valid token is needed: Authorization: Bearer …")

    def _get(self) -> tuple[str, bytes]:
        reader = self.service.reader
        manifest = reader.manifest
        try:
            given = parse_qsl(urlsplit(self.path).query, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise Refused(HTTPStatus.BAD_REQUEST, "The query cannot be read; it is like ?key=42.") from None
        fields = dict(given)
        if len(fields) != len(given) or "key" not in fields:
            raise Refused(HTTPStatus.BAD_REQUEST, "The query needs one key, and each routing column once: ?key=42.")
        key = key_from_text(fields.pop("key"), manifest.key_type)
        value = reader.get(key, columns_from_text(fields, manifest.routing))
        if value is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such key.")
        return (BYTES, value) if isinstance(value, bytes) else (JSON, _json(value))

    def _multi_get(self) -> tuple[str, bytes]:
        reader, config = self.service.reader, self.service.config
        request = self._body()
        keys, routing = request.get("keys"), request.get("routing")
        if not isinstance(keys, list) or not (routing is None or isinstance(routing, dict)):
            raise Refused(HTTPStatus.BAD_REQUEST, 'The body is like {"keys": [1, 2]}, with "routing" as an object where it is needed.')
        if len(keys) > config.max_keys:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{len(keys)} keys are above the {config.max_keys} that may be asked for at once.")
        asked = [key_from_text(key, "bytes") for key in keys] if reader.manifest.key_type == "bytes" else keys
        version, values = reader.multi_get_versioned(asked, routing)
        return JSON, _json({"version": version, "values": [values[key] for key in asked]})

    def _body(self) -> dict[str, Any]:
        limit = self.service.config.max_body_bytes
        if "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The body needs a Content-Length.")
        try:
            length = int(self.headers["Content-Length"])
        except (TypeError, ValueError):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The body needs a Content-Length.") from None
        if length < 0 or length > limit:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body may have {limit} bytes.")
        data = self.rfile.read(length)
        self._body_read = True
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "The body is no valid JSON.") from None
        if not isinstance(body, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, 'The body is like {"keys": [1, 2]}.')
        return body

    def _info(self) -> tuple[str, bytes]:
        return JSON, _json(self.service.reader.info())

    def _health(self) -> tuple[str, bytes]:
        return JSON, _json({"status": "ok", "version": self.service.reader.version})

    def _metrics(self) -> tuple[str, bytes]:
        return TEXT, self.service.metrics.text().encode()

    def handle_one_request(self) -> None:
        self._body_read = False
        super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s %s", self.address_string(), format % args)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For what the standard library refuses by itself: an unknown method, a line or header too long."""
        body = _message(message or HTTPStatus(code).phrase)
        self.close_connection, self.request_version = True, self.protocol_version  # a first line without a version gets headers, too
        self.service.metrics.increment("request_errors_total")
        self.send_response(code)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=_text).encode()


def _text(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _message(error: object) -> bytes:
    return _json({"error": str(error)})
