"""Names of files: as manifests have them, as Spark opens them, and as Spark reports them.

Manifests hold plain names. Spark takes plain names too, but reports them in `_metadata.file_path` as Java writes URIs: one slash
after `file:`, and some characters percent-encoded. Every join on file names goes through `reported_path`.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakewright.format.storage import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3_SCHEMES = ("s3", "s3a", "s3n")
SPARK_SCHEMES = ("file", "hdfs", "viewfs")
_KEPT = frozenset("/_-!.~'()*,;:$&+=@")


def scheme_of(path: str) -> str:
    return "file" if local_path(path) is not None else urlsplit(path).scheme.lower()


def spark_reaches(spark: SparkSession, path: str) -> bool:
    """Whether the session has a file system for this path; for S3 that is hadoop-aws."""
    scheme = scheme_of(path)
    if scheme in SPARK_SCHEMES:
        return True
    settings = spark.conf.getAll
    if f"spark.hadoop.fs.{scheme}.impl" in settings:
        return True
    jars = settings.get("spark.jars", "") + settings.get("spark.jars.packages", "")
    return scheme in S3_SCHEMES and ("spark.hadoop.fs.s3a.impl" in settings or "hadoop-aws" in jars)


def spark_path(spark: SparkSession, path: str) -> str:
    """The name to hand to `spark.read`: without a scheme Spark would take it for one on its default file system."""
    local = local_path(path)
    if local is not None:
        return f"file://{local}"
    scheme = urlsplit(path).scheme
    if scheme in S3_SCHEMES and f"spark.hadoop.fs.{scheme}.impl" not in spark.conf.getAll:
        return "s3a" + path[len(scheme) :]
    return path


def reported_path(opened: str) -> str:
    """What `_metadata.file_path` says of a file opened under the name `spark_path` gave."""
    local = local_path(opened)
    if local is not None:
        return "file:" + _quoted(_single_slashes(local))
    scheme, _, rest = opened.partition("://")
    authority, slash, name = rest.partition("/")
    return f"{scheme}://{authority}{slash}{_quoted(_single_slashes(name))}"


def is_hidden(path: str) -> bool:
    """Whether Spark passes over the file without a word, as it does with names that begin with _ or a dot."""
    name = path.rsplit("/", 1)[-1]
    return name.startswith((".", "_")) or name.endswith("._COPYING_")


def _single_slashes(path: str) -> str:
    while "//" in path:
        path = path.replace("//", "/")
    return path


def _quoted(path: str) -> str:
    """As java.net.URI quotes a path: ASCII outside its legal set, and space and control characters beyond ASCII."""
    if path.isascii() and path.isalnum():
        return path
    return "".join(c if _legal(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in path)


def _legal(c: str) -> bool:
    if c.isascii():
        return c.isalnum() or c in _KEPT
    return unicodedata.category(c) not in ("Zs", "Zl", "Zp", "Cc")
