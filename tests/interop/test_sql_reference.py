"""SQL as the Iceberg project understands it: the same statements on its Spark runtime and on `lake.sql` give the same rows, schemas and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.interop.peer import Peer
from tests.interop.sql_stories import STORIES, Story
from tests.interop.sql_stories.differences import KNOWN_DIFFERENCES, SETUP, Runs
from tests.interop.sql_stories.sides import Side, ours, theirs

STATIC = "SET spark.sql.sources.partitionOverwriteMode = static"
Sides = Callable[[int], tuple[Side, Side]]


@pytest.fixture(scope="module")
def sides(spark: Any, peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Ours and theirs for a version of the format, each in a folder of its own, with the same names for the same tables."""

    @cache
    def made(version: int) -> tuple[Side, Side]:
        return ours(spark, tmp_path_factory.mktemp("ours")), theirs(spark, peer, f"reference{version}", tmp_path_factory.mktemp("theirs"))

    def used(version: int) -> tuple[Side, Side]:
        both = made(version)
        peer.sql(f"USE reference{version}")
        for side in both:
            side.sql(STATIC)
        return both

    yield used
    peer.sql(STATIC)
    peer.sql("USE spark_catalog")


@pytest.mark.parametrize(("story", "version"), [pytest.param(story, version, id=f"{story.name}-v{version}") for story in STORIES for version in story.versions])
def test_statements_do_the_same_on_both_sides(story: Story, version: int, sides: Sides) -> None:
    both = sides(version)
    for side in both:
        side.sql(f"CREATE NAMESPACE {story.name}")
    differences = []
    for statement in story.statements:
        own, other = (side.tell(statement, story, version) for side in both)
        if own != other:
            differences.append(f"{statement}\nours: {own}\ntheirs: {other}")
    assert not differences, "\n\n".join(["", *differences])


def test_there_are_enough_statements() -> None:
    assert len({statement for story in STORIES for statement in story.statements}) >= 150


def test_known_differences_are_still_there(sides: Sides) -> None:
    both = sides(3)
    for statement in SETUP:
        for side in both:
            side.sql(statement)
    others = []
    for difference in KNOWN_DIFFERENCES:
        (our_error, our_answer), (their_error, their_answer) = (side.ran(difference.statement) for side in both)
        match difference.runs:
            case Runs.HERE:
                is_so = our_error is None and their_error is not None
            case Runs.THERE:
                is_so = our_error is not None and their_error is None
            case Runs.BOTH:
                is_so = our_answer is not None and their_answer is not None and our_answer != their_answer
        if not is_so:
            others.append(f"{difference}\nours: {our_error or our_answer}\ntheirs: {their_error or their_answer}")
    assert not others, "\n\n".join(["", *others])
