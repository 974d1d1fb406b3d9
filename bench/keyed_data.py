"""Orders of a keyed table and the changes to them, made once and kept: whole rows, with ids issued in the order of time."""

from __future__ import annotations

from pathlib import Path

from bench.places import DATA, made_whole

FILES = 8
MONTHS = 20
KEY, ORDERING, PARTITION, PRICE = "id", "version", "month", "price"
SMALL_BATCHES, SMALL_ROWS = 50, 1_000


def orders(rows: int) -> list[str]:
    """Paths of `rows` orders of 12 columns over 20 months, in 8 Parquet files in no order of time."""
    folder = DATA / f"orders-{rows}"
    if not folder.exists():
        parts = {f"part-{n:05d}": f"select {_columns(rows)} from range(0, {rows}) t(i) where hash(i + 7) % {FILES} = {n}" for n in range(FILES)}
        _make(folder, parts)
    return _files(folder)


def random_updates(rows: int, count: int) -> list[str]:
    """A new version of `count` orders chosen at random."""
    return _changes(f"orders-{rows}-random-{count}", rows, [f"range(0, {rows}) t(i) order by hash(i + 5) limit {count}"])


def recent_changes(rows: int, count: int) -> list[str]:
    """`count` changes in the last two months: a new version of 90%, and 10% new orders."""
    old = count * 9 // 10
    return _changes(f"orders-{rows}-recent-{count}", rows, [_recent(rows, old, 5), f"range({rows}, {rows + count - old}) t(i)"])


def small_batches(rows: int) -> list[str]:
    """50 batches of 1,000 changes in the last two months, a tenth of them new orders; one file each."""
    folder = DATA / f"orders-{rows}-small"
    if not folder.exists():
        old, new = SMALL_ROWS * 9 // 10, SMALL_ROWS // 10
        batches = {}
        for n in range(SMALL_BATCHES):
            begin = rows + n * new
            batches[f"batch-{n:05d}"] = _changed(rows, [_recent(rows, old, 100 + n), f"range({begin}, {begin + new}) t(i)"], version=n + 2)
        _make(folder, batches)
    return _files(folder)


def _columns(rows: int) -> str:
    """The month of an order follows from its id; orders past the last belong to the last month."""
    month = f"least(i * {MONTHS} // {rows}, {MONTHS - 1})"
    return f"""
    i::bigint as id, 1::bigint as version, strftime(date '2024-01-01' + to_months(({month})::int), '%Y-%m') as month,
    (hash(i) % 60000000)::bigint as customer, (hash(i+11) % 200000)::int as part,
    ((hash(i+22) % 5000) / 100.0)::decimal(12,2) as quantity, ((hash(i+33) % 10000000) / 100.0)::decimal(12,2) as price,
    ((hash(i+44) % 11) / 100.0)::double as discount,
    ['A','N','R'][1 + (hash(i+55) % 3)::int] as flag,
    ['AIR','MAIL','SHIP','TRUCK','RAIL','FOB','REG AIR'][1 + (hash(i+66) % 7)::int] as ship_mode,
    (timestamptz '2024-01-01 00:00:00+00' + to_seconds((i * 52000000 // {rows})::bigint)) as ordered_at,
    ['quick','slow','bold','final','even','ironic','silent','pending'][1 + (hash(i+101) % 8)::int] || ' ' || substr(md5(i::varchar), 1, 12) as note
    """


def _recent(rows: int, count: int, seed: int) -> str:
    first = rows * (MONTHS - 2) // MONTHS
    return f"range({first}, {rows}) t(i) order by hash(i + {seed}) limit {count}"


def _changed(rows: int, chosen: list[str], version: int) -> str:
    ids = " union all ".join(f"select * from (select i from {source})" for source in chosen)
    return f"select * replace ({version}::bigint as version, ({PRICE} + {version})::decimal(12,2) as {PRICE}) from (select {_columns(rows)} from ({ids}) t(i))"


def _changes(name: str, rows: int, chosen: list[str]) -> list[str]:
    folder = DATA / name
    if not folder.exists():
        _make(folder, {"changes": _changed(rows, chosen, version=2)})
    return _files(folder)


def _make(folder: Path, queries: dict[str, str]) -> None:
    import duckdb  # the peers' environment has none, and needs only the names above

    with made_whole(folder) as part, duckdb.connect() as connection:
        for name, query in queries.items():
            connection.execute(f"copy ({query}) to '{part}/{name}.parquet' (format parquet, compression zstd, row_group_size 250000)")


def _files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("*.parquet"))
