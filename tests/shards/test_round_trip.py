"""Every key that was written is got, and none other: both backends, the plain and the async reader, every kind of key and routing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import DuplicateShardKey, InvalidRouting, InvalidShardKey, ValueTooLarge
from lakewright.shards.backends.slate import SlateBackend
from lakewright.shards.backends.sqlite import SqliteBackend
from lakewright.shards.routing import HashRouting, cel_routing
from lakewright.shards.store import open_store
from lakewright.shards.values import codec_for
from tests.shards.readers import READERS
from tests.shards.snapshots import ARROW, published

BACKENDS = ["sqlite", "slatedb"]
KEYS: dict[str, Any] = {
    "int": st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**32])),
    "str": st.one_of(st.text(max_size=40), st.just("x" * 5000), st.sampled_from(["", "\0", "ż", "𝛑", "a\0b"])),
    "bytes": st.one_of(st.binary(max_size=40), st.just(b"\xff" * 3000), st.sampled_from([b"", b"\0", b"\xff"])),
}
pytestmark = [pytest.mark.feature("S13")]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=READERS)
def opened(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return READERS[request.param]


@pytest.mark.parametrize("key_type", ["int", "str", "bytes"])
@settings(max_examples=12)
@given(data=st.data())
def test_what_was_written_is_got_and_nothing_else(data: st.DataObject, key_type: Any, backend: str, opened: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = data.draw(st.dictionaries(KEYS[key_type], st.binary(max_size=200), max_size=25))
    others = data.draw(st.lists(KEYS[key_type], max_size=10))
    num_shards = data.draw(st.sampled_from([1, 2, 5, 8]))
    store = open_store(str(tmp_path_factory.mktemp("users")))
    published(store, rows, key_type=key_type, routing=HashRouting(num_shards), backend=backend)
    with opened(store.url) as reader:
        assert {key: reader.get(key) for key in rows} == rows
        asked = [*rows, *others]
        expected = {key: rows.get(key) for key in asked}
        assert {key: reader.get(key) for key in others} == {key: rows.get(key) for key in others}
        assert reader.multi_get(asked) == expected and list(reader.multi_get(asked)) == list(expected)
        assert list(reader.scan()) == sorted(rows.items())
        if len(rows) > 1:
            first, last = sorted(rows)[0], sorted(rows)[-1]
            assert list(reader.scan(start=first, end=last)) == sorted(rows.items())[:-1]
            assert list(reader.scan(start=last)) == sorted(rows.items())[-1:]


@pytest.mark.parametrize("key_type", ["str", "bytes"])
def test_scan_of_a_prefix(key_type: Any, backend: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    names = ["", "a", "a:1", "a:2", "a;", "b", "żółć", "żółw", "\U0010ffff", "\U0010ffffz"]
    keys: list[Any] = names if key_type == "str" else [name.encode() for name in names] + [b"\xff", b"\xff\xff", b"\xff\xff\x01"]
    store = open_store(str(tmp_path))
    published(store, dict.fromkeys(keys, b"v"), key_type=key_type, backend=backend)
    with opened(store.url) as reader:
        for prefix in [*keys, keys[0][:0]]:
            assert [key for key, _ in reader.scan(prefix)] == sorted(key for key in keys if key.startswith(prefix))
        within = keys[2]
        assert [key for key, _ in reader.scan(keys[1], start=within)] == sorted(key for key in keys if key.startswith(keys[1]) and key >= within)


def test_many_keys_at_once(backend: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    rows = {number * 7 - 1000: b"%d" % number for number in range(3000)}
    store = open_store(str(tmp_path))
    published(store, rows, routing=HashRouting(8), backend=backend)
    with opened(store.url) as reader:
        asked = [*range(-1100, 1000), *rows, *list(rows)[:50]]
        assert reader.multi_get(asked) == {key: rows.get(key) for key in asked}
        assert reader.multi_get([]) == {} and reader.multi_get(iter([0, 6])) == {0: None, 6: rows.get(6)}


def test_shards_without_rows_answer_none(backend: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    published(store, {}, routing=HashRouting(3), backend=backend)
    with opened(store.url, eager=True) as reader:
        assert reader.get(1) is None and reader.multi_get([1, 2, 3]) == {1: None, 2: None, 3: None} and list(reader.scan()) == []
        assert reader.info()["empty_shards"] == 3


CEL = {
    "direct": (cel_routing("key % 4", key_column="key", key_type="int", num_shards=4), False),
    "categorical": (cel_routing("region", key_column="key", key_type="int", columns={"region": pa.string()}, values=["eu", "us"]), True),
    "several columns": (cel_routing("region == 'eu' ? key % 2 : 2 + key % 2", key_column="key", key_type="int", columns={"region": pa.string()}, num_shards=4), True),
}


@pytest.mark.feature("S2")
@pytest.mark.parametrize("name", CEL)
def test_snapshots_routed_by_an_expression(name: str, backend: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    routing, needs_region = CEL[name]
    rows = {key: b"%d" % key for key in range(20)}
    regions = ["eu" if key % 3 else "us" for key in rows]
    store = open_store(str(tmp_path))
    published(store, rows, routing=routing, backend=backend, columns={"region": regions})
    with opened(store.url) as reader:
        for key, region in zip(rows, regions, strict=True):
            assert reader.get(key, {"region": region} if needs_region else None) == rows[key]
        eu = [key for key, region in zip(rows, regions, strict=True) if region == "eu"]
        assert reader.multi_get(eu, {"region": "eu"}) == {key: rows[key] for key in eu}
        assert list(reader.scan()) == sorted(rows.items())
        if needs_region:
            with pytest.raises(InvalidRouting, match="region"):
                reader.get(1)


@pytest.mark.parametrize("codec", ["json", "msgpack", "avro"])
def test_records_come_back_as_records(codec: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    batch = pa.record_batch({"name": ["Ada", "Żaneta"], "age": pa.array([36, None], pa.int32())})
    how = codec_for(codec, ["name", "age"], batch.schema)
    store = open_store(str(tmp_path))
    published(store, dict(enumerate(how.encode(batch).to_pylist())), codec=how)
    with opened(store.url) as reader:
        assert reader.get(0) == {"name": "Ada", "age": 36}
        assert reader.multi_get([1, 2]) == {1: {"name": "Żaneta", "age": None}, 2: None}
        assert list(reader.scan()) == [(0, {"name": "Ada", "age": 36}), (1, {"name": "Żaneta", "age": None})]


@pytest.mark.parametrize(("key_type", "key"), [("int", "1"), ("int", b"1"), ("int", None), ("int", 1.0), ("int", True), ("int", 2**63), ("str", 1), ("str", b"a"), ("str", "\ud800"), ("bytes", "a"), ("bytes", 1), ("bytes", None)])
def test_keys_of_a_wrong_type(key_type: Any, key: Any, opened: Callable[..., Any], tmp_path: Path) -> None:
    good: Any = {"int": 1, "str": "a", "bytes": b"a"}[key_type]
    store = open_store(str(tmp_path))
    published(store, {good: b"v"}, key_type=key_type)
    with opened(store.url) as reader:
        for ask in (lambda: reader.get(key), lambda: reader.multi_get([good, key]), lambda: reader.multi_get([good] * 100 + [key]), lambda: reader.multi_get([key] * 100)):
            with pytest.raises(InvalidShardKey):
                ask()
        assert reader.get(good) == b"v"


def test_one_key_is_no_list_of_keys(opened: Callable[..., Any], tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    published(store, {"ab": b"v"}, key_type="str")
    with opened(store.url) as reader, pytest.raises(InvalidShardKey, match="list of keys"):
        reader.multi_get("ab")


def test_whole_numbers_have_no_prefix(opened: Callable[..., Any], tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    published(store, {1: b"v"})
    with opened(store.url) as reader, pytest.raises(InvalidShardKey, match="start and end"):
        list(reader.scan("1"))


@pytest.mark.parametrize("how", [SqliteBackend(max_value_bytes=10), SlateBackend(max_value_bytes=10)], ids=lambda how: how.name)
def test_a_value_above_the_limit(how: Any, tmp_path: Path) -> None:
    writer = how.writer(str(tmp_path), "int")
    with pytest.raises(ValueTooLarge, match="11 bytes, in row 1 of its batch, is above the 10"):
        writer.write(pa.array([1, 2]), pa.array([b"x" * 10, b"x" * 11]))
    writer.abort()


@pytest.mark.parametrize("keys", [[[1, 2, 2]], [[2, 1], [3, 1]], [[1, 2], [1]]], ids=str)
@pytest.mark.parametrize("key_type", ["int", "str"])
def test_a_key_that_comes_twice(keys: list[list[int]], key_type: Any, backend: str, tmp_path: Path) -> None:
    writer = {"sqlite": SqliteBackend(), "slatedb": SlateBackend()}[backend].writer(str(tmp_path), key_type)
    twice = 2 if keys == [[1, 2, 2]] else 1
    shown: list[list[Any]] = keys if key_type == "int" else [[str(key) for key in some] for some in keys]
    for some in shown[:-1]:
        writer.write(pa.array(some, ARROW[key_type]), pa.array([b"v"] * len(some)))
    with pytest.raises(DuplicateShardKey, match=f"The key '?{twice}'? comes twice"):
        writer.write(pa.array(shown[-1], ARROW[key_type]), pa.array([b"v"] * len(shown[-1])))
    writer.abort()


def test_keys_in_any_order(backend: str, opened: Callable[..., Any], tmp_path: Path) -> None:
    writer = {"sqlite": SqliteBackend(), "slatedb": SlateBackend()}[backend].writer(str(tmp_path), "int")
    for some in ([5, 3], [4, -1], [9]):
        writer.write(pa.array(some, pa.int64()), pa.array([b"%d" % key for key in some]))
    assert writer.rows == 5
    writer.finish()
    shard = {"sqlite": SqliteBackend(), "slatedb": SlateBackend()}[backend].open(str(tmp_path), "int")
    assert list(shard.scan()) == [(key, b"%d" % key) for key in (-1, 3, 4, 5, 9)]
    shard.close()
