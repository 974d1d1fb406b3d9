"""Download the jars of scripts/jars.txt from Maven Central into .jars/<set>/, checking each against its SHA-256.

Usage: fetch_jars.py SET...          what is already there is kept, so a second run does nothing
       fetch_jars.py --pin SET...    write the digests of what is downloaded into jars.txt (after changing a version)
"""

from __future__ import annotations

import hashlib
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "jars.txt"
JARS = ROOT / ".jars"
MAVEN = "https://repo1.maven.org/maven2"
ATTEMPTS = 4


@dataclass(frozen=True)
class Jar:
    group: str
    coordinates: str
    sha256: str | None

    @property
    def name(self) -> str:
        _, artifact, *rest = self.coordinates.split(":")
        return "-".join([artifact, *rest]) + ".jar"

    @property
    def url(self) -> str:
        organisation, artifact, version, *_ = self.coordinates.split(":")
        return f"{MAVEN}/{organisation.replace('.', '/')}/{artifact}/{version}/{self.name}"

    @property
    def path(self) -> Path:
        return JARS / self.group / self.name


def listed() -> Iterator[Jar]:
    group = ""
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith("#"):
            coordinates, _, digest = line.partition(" ")
            yield Jar(group, coordinates, digest.strip() or None)


def downloaded(url: str) -> bytes:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=300) as response:
                return bytes(response.read())
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code == 404
            if refused or attempt == ATTEMPTS:
                raise SystemExit(f"{url} could not be downloaded: {error}") from error
            time.sleep(2**attempt)
    raise AssertionError


def fetch(jar: Jar) -> None:
    if jar.path.exists():
        return
    content = downloaded(jar.url)
    digest = hashlib.sha256(content).hexdigest()
    if jar.sha256 not in (None, digest):
        raise SystemExit(f"{jar.url} has SHA-256 {digest}, but scripts/jars.txt says {jar.sha256}.")
    jar.path.parent.mkdir(parents=True, exist_ok=True)
    partial = jar.path.with_suffix(".part")
    partial.write_bytes(content)
    partial.rename(jar.path)
    print(f"fetched {jar.group}/{jar.name} ({len(content) // 1024:,} KiB)")


def drop_unlisted(jars: list[Jar]) -> None:
    """What an earlier list brought would stay on class paths, which take whole folders."""
    for group in {jar.group for jar in jars}:
        for path in (JARS / group).iterdir():
            if path not in {jar.path for jar in jars}:
                path.unlink()


def pin(jars: list[Jar]) -> None:
    lines = LIST.read_text().splitlines()
    for jar in jars:
        digest = hashlib.sha256(jar.path.read_bytes()).hexdigest()
        lines = [f"{jar.coordinates} {digest}" if line.split(" ")[0] == jar.coordinates else line for line in lines]
    LIST.write_text("\n".join(lines) + "\n")


def main(arguments: list[str]) -> None:
    groups = [a for a in arguments if not a.startswith("--")]
    jars = [jar for jar in listed() if jar.group in groups]
    if unknown := set(groups) - {jar.group for jar in jars}:
        raise SystemExit(f"scripts/jars.txt has no set named {', '.join(sorted(unknown))}.")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(fetch, jars))
    drop_unlisted(jars)
    if "--pin" in arguments:
        pin(jars)


if __name__ == "__main__":
    main(sys.argv[1:])
