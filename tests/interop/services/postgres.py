"""PostgreSQL from the system's packages, on a data directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from tests.interop.services.process import ServiceFailed, free_port, serving

SERVER_USER = "postgres"


@dataclass(frozen=True)
class Postgres:
    port: int

    @property
    def sqlalchemy_uri(self) -> str:
        return f"postgresql+psycopg2://{SERVER_USER}@127.0.0.1:{self.port}/postgres"

    @property
    def jdbc_uri(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"


@contextmanager
def postgres_server(folder: Path) -> Iterator[Postgres]:
    port = free_port()
    # Outside pytest's folders: those admit their owner only, and the server runs as another user.
    data = Path(tempfile.mkdtemp(prefix="interop-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(data, SERVER_USER)
        initialise = [*_as_server_user(), str(_binary("initdb")), "-D", str(data), "-U", SERVER_USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        made = subprocess.run(initialise, capture_output=True, text=True, cwd="/")
        if made.returncode:
            raise ServiceFailed(f"initdb failed with code {made.returncode}.\n{made.stdout}\n{made.stderr}")
        command = [*_as_server_user(), str(_binary("postgres")), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", str(data), "-F"]
        with serving("PostgreSQL", command, folder / "postgres.log", lambda: _accepts(port)):
            yield Postgres(port)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _binary(name: str) -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4]))
    if installed:
        return installed[-1]
    if found := shutil.which(name):
        return Path(found)
    raise ServiceFailed(f"PostgreSQL's {name} is not installed; `make interop` installs it with apt-get install postgresql.")


def _as_server_user() -> Sequence[str]:
    return ["runuser", "-u", SERVER_USER, "--"] if os.geteuid() == 0 else []


def _accepts(port: int) -> bool:
    try:
        psycopg2.connect(host="127.0.0.1", port=port, user=SERVER_USER, dbname="postgres", connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True
