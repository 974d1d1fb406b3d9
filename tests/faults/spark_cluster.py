"""A standalone Spark cluster of real processes: a master, and workers on loopback hosts of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
FAST, SLOW = "127.0.0.1", "127.0.0.2"
HOST_VARIABLE = "LAKEWRIGHT_TEST_HOST"
START_SECONDS = 90


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The master's url. Tasks find the host of their worker in the environment."""
    port, page = free_port(), free_port()
    with ExitStack() as stack:
        run(stack, folder / "master.log", FAST, "org.apache.spark.deploy.master.Master", "--host", FAST, "--port", str(port), "--webui-port", str(page))
        for host in (FAST, SLOW):
            where = folder / f"work-{host}"
            options = ("--host", host, "--webui-port", "0", "--cores", "2", "--memory", "1g", "--work-dir", str(where), f"spark://{FAST}:{port}")
            run(stack, folder / f"worker-{host}.log", host, "org.apache.spark.deploy.worker.Worker", *options)
        wait_for_workers(page, 2)
        yield f"spark://{FAST}:{port}"


def run(stack: ExitStack, log: Path, host: str, *command: str) -> None:
    environment = {**os.environ, "SPARK_LOCAL_IP": host, HOST_VARIABLE: host, "SPARK_DAEMON_MEMORY": "256m"}
    process = subprocess.Popen([str(SPARK_CLASS), *command], stdout=log.open("w"), stderr=subprocess.STDOUT, env=environment)
    stack.callback(end, process)


def end(process: subprocess.Popen[bytes]) -> None:
    """With the executors and Python workers it started."""
    tree = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
    for child in tree:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def wait_for_workers(page: int, count: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{FAST}:{page}/json/", timeout=2) as answer:
                if answer.read().decode().count('"state" : "ALIVE"') >= count:
                    return
        except OSError:
            pass
        time.sleep(0.3)
    raise TimeoutError(f"the cluster did not come up in {START_SECONDS} s")


def free_port() -> int:
    with socket.socket() as found:
        found.bind((FAST, 0))
        return int(found.getsockname()[1])
