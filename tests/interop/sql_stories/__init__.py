"""SQL statements, written along the pages of the Iceberg project's documentation for Spark, that its runtime and `lake.sql` both run.

A story is a script of statements on the tables of one namespace, which is called like the story. `{version}` stands for the version of the format,
`{snapshot[0]}` for the id of the first snapshot of the story's table and `{time[0]}` for when it was committed, on whichever side runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.sql_stories import ddl, queries, writes


@dataclass(frozen=True)
class Story:
    name: str
    statements: tuple[str, ...]
    versions: tuple[int, ...]

    @property
    def table(self) -> str:
        """The table that is looked at after each statement."""
        return f"{self.name}.t"


def _stories(scripts: dict[str, str], *versions: int) -> list[Story]:
    return [Story(name, tuple(s.strip() for s in script.split(";\n") if s.strip()), versions) for name, script in scripts.items()]


STORIES = [*_stories(ddl.SCRIPTS, 2), *_stories(writes.INSERTS, 3), *_stories(writes.CHANGES, 2, 3), *_stories(queries.SCRIPTS, 2)]
