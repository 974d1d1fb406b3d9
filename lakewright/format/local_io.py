"""Files on local disk, opened without PyIceberg's Arrow FileIO: importing that takes longer than most steps of a write take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io

from lakewright.format.storage import local_path


def open_io(properties: Mapping[str, Any], location: str) -> FileIO:
    """The FileIO for a location: the one the properties name, else the local one for local disk, else the one PyIceberg has for its scheme."""
    return LocalFileIO(dict(properties)) if is_local(properties, location) else load_file_io(dict(properties), location)


def is_local(properties: Mapping[str, Any], location: str) -> bool:
    """Whether `open_io` opens the location itself."""
    return PY_IO_IMPL not in properties and local_path(location) is not None


class LocalFileIO(FileIO):
    """Files on local disk. It pickles. A table may have files elsewhere too: those go to the FileIO of their scheme."""

    def new_input(self, location: str) -> InputFile:
        path = local_path(location)
        return self._elsewhere(location).new_input(location) if path is None else LocalFile(location, path)

    def new_output(self, location: str) -> OutputFile:
        path = local_path(location)
        return self._elsewhere(location).new_output(location) if path is None else LocalFile(location, path)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        path = local_path(name)
        if path is None:
            self._elsewhere(name).delete(name)
        else:
            os.unlink(path)

    def _elsewhere(self, location: str) -> FileIO:
        return load_file_io(self.properties, location)


class LocalFile(InputFile, OutputFile):
    def __init__(self, location: str, path: str) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return os.stat(self._path).st_size

    def exists(self) -> bool:
        try:
            os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        stream: InputStream = pa.OSFile(self._path, "rb")
        return stream

    def create(self, overwrite: bool = False) -> OutputStream:
        """A stream to the file, whose folders are made; of several that create without `overwrite` at once, one succeeds."""
        try:
            return self._created(overwrite)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            return self._created(overwrite)

    def to_input_file(self) -> LocalFile:
        return self

    def _created(self, overwrite: bool) -> OutputStream:
        if not overwrite:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        stream: OutputStream = pa.OSFile(self._path, "wb")
        return stream
