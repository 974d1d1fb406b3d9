"""Files on local disk."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakewright.errors import PermissionRefused
from lakewright.format.local_io import LocalFileIO, open_io
from lakewright.format.storage import explained, filesystem, list_files, read_bytes

ODD_NAMES = ("plain", "two words", "100%", "a%20b", "día-日本", "part#1", "what?", "a=b&c", "semi;colon", "[x]", "back\\slash")
PREFIXES = ("", "file://", "file:")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_location_is_a_name_and_not_a_url(tmp_path: Path, prefix: str, name: str) -> None:
    location = f"{prefix}{tmp_path}/{name}/{name}.bin"
    io = open_io({}, location)
    with io.new_output(location).create() as stream:
        stream.write(b"content")
    assert (tmp_path / name / f"{name}.bin").read_bytes() == b"content"
    assert read_bytes(io, location) == b"content" and len(io.new_input(location)) == 7
    assert [file.path for file in list_files(io, f"{prefix}{tmp_path}/{name}")] == [location]
    fs, path = filesystem(io, location)
    assert fs.open_input_file(path).read() == b"content"
    io.delete(location)
    assert os.listdir(tmp_path / name) == []


def test_a_stream_seeks_tells_and_reads_parts(tmp_path: Path) -> None:
    io = LocalFileIO({})
    with io.new_output(f"{tmp_path}/x").create() as out:
        out.write(b"0123")
        out.write(b"456789")
        assert out.tell() == 10
    with io.new_input(f"{tmp_path}/x").open() as stream:
        stream.seek(3)
        assert (stream.read(4), stream.tell()) == (b"3456", 7)


def test_a_file_is_replaced_only_when_that_is_said(tmp_path: Path) -> None:
    output = LocalFileIO({}).new_output(f"file://{tmp_path}/x")
    output.create().close()
    with pytest.raises(FileExistsError):
        output.create(overwrite=False)
    with output.create(overwrite=True) as stream:
        stream.write(b"new")
    assert output.to_input_file().open().read() == b"new"


def test_what_is_not_there(tmp_path: Path) -> None:
    io = LocalFileIO({})
    missing = io.new_input(f"file://{tmp_path}/none/x")
    assert not missing.exists()
    for action in (missing.open, missing.__len__, lambda: io.delete(missing)):
        with pytest.raises(FileNotFoundError):
            action()


def test_below_a_file_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    below = LocalFileIO({}).new_output(f"{tmp_path}/x/y")
    assert not below.exists()
    with pytest.raises(OSError, match="Not a directory|File exists"):
        below.create()


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_refusal_is_known_as_one(overwrite: bool) -> None:
    """The kernel's own folder takes no files, not even from root."""
    with pytest.raises(OSError) as refused:
        LocalFileIO({}).new_output("/sys/kernel/x").create(overwrite=overwrite)
    assert isinstance(explained(refused.value, "x"), PermissionRefused)


def test_it_pickles(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(LocalFileIO({"a": "b"})))
    assert isinstance(again, LocalFileIO) and again.properties == {"a": "b"}
    again.new_output(f"{tmp_path}/x").create().close()
    assert (tmp_path / "x").exists()


def test_another_file_io_is_used_where_it_is_named_or_the_location_is_elsewhere(tmp_path: Path) -> None:
    named = open_io({"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}, f"file://{tmp_path}/x")
    assert isinstance(named, PyArrowFileIO)
    assert isinstance(open_io({}, "s3://bucket/x"), PyArrowFileIO)
    assert isinstance(open_io({}, f"{tmp_path}/x"), LocalFileIO)


def test_a_file_elsewhere_of_a_local_table_goes_to_the_file_io_of_its_scheme() -> None:
    located = LocalFileIO({"s3.region": "eu-west-1"}).new_input("s3://bucket/x")
    assert type(located).__name__ == "PyArrowFile" and located.location == "s3://bucket/x"


def test_arrow_writes_parquet_through_it(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table({"a": list(range(1000))})
    with LocalFileIO({}).new_output(f"{tmp_path}/t.parquet").create() as stream:
        pq.write_table(table, stream)
    with LocalFileIO({}).new_input(f"{tmp_path}/t.parquet").open() as source:
        assert pq.read_table(source).equals(table)


@pytest.mark.parametrize("step", ["lakewright.source.writer", "lakewright.source.commit", "lakewright.write.task", "lakewright.source.project"])
def test_a_step_of_the_data_source_imports_no_slow_modules(step: str) -> None:
    slow = ("pandas", "pyarrow.dataset", "pyiceberg.io.pyarrow", "sqlglot", "sqlalchemy", "requests")
    code = f"import sys, {step}; print([name for name in {slow} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
