"""Murmur3 (x86, 32 bits, seed 0) in Spark Columns, built on Spark's own compiled `hash`.

Spark's `hash(a, b)` is Murmur3 of b seeded with the hash of a, and a seeded with 42. One int hashes to 0 under 42: put
before b, it gives Murmur3 of b with seed 0. For whole words of 4 bytes that is the standard function; only the last
1 to 3 bytes of a string are mixed in differently, so for those the last steps are undone and done again by the standard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HASHES_TO_ZERO = -1693959553
MASK = 0xFFFFFFFF
C1, C2 = 0xCC9E2D51, 0x1B873593
F1, F2 = 0x85EBCA6B, 0xC2B2AE35
F1_INVERSE, F2_INVERSE = pow(F1, -1, 2**32), pow(F2, -1, 2**32)


def murmur3_long(column: Column) -> Column:
    """Hash of a bigint; 0 for null, which callers mask."""
    from pyspark.sql import functions as F

    return F.hash(F.lit(HASHES_TO_ZERO), column)


def with_murmur3_bytes(df: DataFrame, name: str, column: Column) -> DataFrame:
    """Adds the hash of a binary column; not to be relied on for null, which callers mask.

    In stages, since each step uses the one before several times: as one expression it would grow beyond what Spark can plan.
    """
    from pyspark.sql import functions as F

    value, length, aligned, words, tail, state = (f"{name}_{part}" for part in ("value", "length", "aligned", "words", "tail", "state"))
    df = df.withColumn(value, column).withColumn(length, F.octet_length(value))
    df = df.withColumn(aligned, F.col(length).bitwiseAND(F.lit(~3)))
    whole = F.hash(F.lit(HASHES_TO_ZERO), F.substring(F.col(value), F.lit(1), F.col(aligned)))
    df = df.withColumns({words: whole, tail: _tail(F.col(value), F.col(aligned))})
    before_tail = _unfinish(_unsigned(F.col(words))).bitwiseXOR(F.col(aligned).cast("bigint"))
    df = df.withColumn(state, before_tail.bitwiseXOR(_mix(F.col(tail))).bitwiseXOR(F.col(length).cast("bigint")))
    df = df.withColumn(state, _finish(F.col(state)))
    signed = F.when(F.col(state) > 0x7FFFFFFF, F.col(state) - 2**32).otherwise(F.col(state)).cast("int")
    df = df.withColumn(name, F.when(F.col(length) == F.col(aligned), F.col(words)).otherwise(signed))
    return df.drop(value, length, aligned, words, tail, state)


def _tail(column: Column, start: Column) -> Column:
    """The bytes after `start`, first one lowest; missing ones are 0."""
    from pyspark.sql import functions as F

    last = F.decode(F.substring(column, start + F.lit(1), F.lit(3)), "ISO-8859-1")
    low, middle, high = (F.ascii(F.substring(last, position, 1)).cast("bigint") for position in (1, 2, 3))
    return low + middle * F.lit(1 << 8) + high * F.lit(1 << 16)


def _mix(word: Column) -> Column:
    spread = _multiply(word, C1)
    rotated = _shift_left(spread, 15).bitwiseOR(_shift_right(spread, 17))
    return _multiply(rotated, C2)


def _finish(state: Column) -> Column:
    state = _multiply(state.bitwiseXOR(_shift_right(state, 16)), F1)
    state = _multiply(state.bitwiseXOR(_shift_right(state, 13)), F2)
    return state.bitwiseXOR(_shift_right(state, 16))


def _unfinish(hashed: Column) -> Column:
    state = _multiply(hashed.bitwiseXOR(_shift_right(hashed, 16)), F2_INVERSE)
    state = state.bitwiseXOR(_shift_right(state, 13)).bitwiseXOR(_shift_right(state, 26))
    state = _multiply(state, F1_INVERSE)
    return state.bitwiseXOR(_shift_right(state, 16))


def _unsigned(column: Column) -> Column:
    from pyspark.sql import functions as F

    return column.cast("bigint").bitwiseAND(F.lit(MASK))


def _multiply(column: Column, factor: int) -> Column:
    """Low 32 bits of the product. The factor is taken as signed, so that the product of 32 by 32 bits fits a bigint."""
    from pyspark.sql import functions as F

    signed = factor - 2**32 if factor > 2**31 else factor
    return (column * F.lit(signed).cast("bigint")).bitwiseAND(F.lit(MASK))


def _shift_left(column: Column, bits: int) -> Column:
    from pyspark.sql import functions as F

    return F.shiftleft(column, bits).bitwiseAND(F.lit(MASK))


def _shift_right(column: Column, bits: int) -> Column:
    from pyspark.sql import functions as F

    return F.shiftright(column, bits)
