"""Text made ready for Spark: some places of it replaced, and the way back from a place in the result to the one in the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakewright.sql.cursor import Slice

Edit = tuple[int, int, str]


@dataclass(frozen=True)
class Ready:
    """pieces: where each piece of the text begins in the result and in the original, and whether it is as it was there."""

    text: str
    pieces: tuple[tuple[int, int, bool], ...]

    def original(self, at: int) -> int:
        """The place in the original of a place in the result."""
        begin, origin, kept = next((p for p in reversed(self.pieces) if p[0] <= at), (at, self.pieces[0][1], True))
        return origin + (at - begin if kept else 0)

    def __str__(self) -> str:
        return self.text


def edited(text: Slice, edits: Iterable[Edit], before: str = "") -> Ready:
    """The text with the edits, which name places of the whole it is a part of; what begins inside an earlier edit is left out."""
    out, pieces, length = [before], [], len(before)

    def add(piece: str, origin: int, kept: bool) -> None:
        nonlocal length
        if piece:
            pieces.append((length, origin, kept))
            out.append(piece)
            length += len(piece)

    at = text.start
    for start, end, replacement in sorted(edits):
        if start < at:
            continue
        add(text.sql[at:start], at, True)
        add(replacement, start, False)
        at = end
    add(text.sql[at : text.end], at, True)
    return Ready("".join(out), tuple(pieces))
