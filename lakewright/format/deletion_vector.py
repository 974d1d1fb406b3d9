"""The deletion-vector-v1 blob: which rows of a data file are deleted, as a 64-bit Roaring bitmap between a length and a checksum."""

from __future__ import annotations

from array import array
from typing import Any
from zlib import crc32

import numpy as np
from pyroaring import BitMap64

from lakewright.errors import CorruptFile

MAGIC = bytes.fromhex("D1D33964")
LARGEST_POSITION = 2**63 - 1
_NUMBER = 4

Positions = np.ndarray[Any, np.dtype[np.int64]]


def serialize(positions: BitMap64) -> bytes:
    """Length of magic and vector (big-endian), magic, vector in Roaring's portable format, CRC-32 of magic and vector (big-endian)."""
    if positions and positions.max() > LARGEST_POSITION:
        raise ValueError(f"Position {positions.max()} is past {LARGEST_POSITION}, the largest a deletion vector may hold.")
    positions.run_optimize()
    body = MAGIC + positions.serialize()
    return len(body).to_bytes(_NUMBER, "big") + body + crc32(body).to_bytes(_NUMBER, "big")


def deserialize(data: bytes, path: str) -> BitMap64:
    """The positions in a blob. `path` names it in errors."""
    if len(data) < 3 * _NUMBER:
        raise damaged(path, f"it has {len(data)} bytes, fewer than any vector")
    length, body, checksum = int.from_bytes(data[:_NUMBER], "big"), data[_NUMBER:-_NUMBER], int.from_bytes(data[-_NUMBER:], "big")
    if length != len(body):
        raise damaged(path, f"it says its length is {length}, and is {len(body)}")
    if body[:_NUMBER] != MAGIC:
        raise damaged(path, f"it begins with {body[:_NUMBER].hex()} instead of {MAGIC.hex()}")
    if crc32(body) != checksum:
        raise damaged(path, "its checksum does not match")
    try:
        positions = BitMap64.deserialize(body[_NUMBER:])
    except (ValueError, IndexError) as error:
        raise damaged(path, "its bitmap cannot be decoded") from error
    if positions and positions.max() > LARGEST_POSITION:
        raise damaged(path, f"it has position {positions.max()}, which no file can have")
    return positions


def to_bitmap(positions: Positions) -> BitMap64:
    """By way of an array.array, which the bitmap takes at twice the speed of anything else."""
    if len(positions) and positions.min() < 0:
        raise ValueError(f"Position {positions.min()} is negative.")
    return BitMap64(array("Q", positions.astype(np.int64, copy=False).tobytes()))


def to_array(positions: BitMap64) -> Positions:
    """The positions in ascending order."""
    return np.frombuffer(positions.to_array(), dtype=np.int64)


def damaged(path: str, reason: str) -> CorruptFile:
    return CorruptFile(f"Deletion vector {path} is damaged: {reason}. Restore the file, or roll the table back to a snapshot that does not use it.")
