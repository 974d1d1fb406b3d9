"""Opening Parquet files with Arrow on any store, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakewright.errors import CorruptFile
from lakewright.format.storage import local_path
from lakewright.read.footers import missing


@contextmanager
def opened(io: FileIO, path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """Columns are fetched together where each request to the store takes long; on local disk that costs a tenth of a small read."""
    try:
        with io.new_input(path).open() as stream:
            yield pq.ParquetFile(stream, pre_buffer=local_path(path) is None, **options)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptFile(f"Data file {path} cannot be read: {error}") from error
