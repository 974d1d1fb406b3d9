"""S3 by moto's server: the protocol of an object store, kept in memory."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from tests.interop.services.process import answers, free_port, serving

ACCESS_KEY = "interop"
SECRET_KEY = "interop-secret"
REGION = "us-east-1"


@dataclass(frozen=True)
class S3:
    endpoint: str
    bucket: str

    @property
    def client_properties(self) -> dict[str, str]:
        """What PyIceberg's FileIO, and the Java S3FileIO, call these settings."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "client.region": REGION,
        }

    def reset(self) -> None:
        """Forgets every object."""
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST")
        urllib.request.urlopen(request, timeout=30).close()
        self.make_bucket()

    def make_bucket(self) -> None:
        client = boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=REGION)
        client.create_bucket(Bucket=self.bucket)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with serving("moto's S3 server", command, folder / "moto.log", lambda: answers(port)):
        s3 = S3(f"http://127.0.0.1:{port}", "lake")
        s3.make_bucket()
        yield s3
