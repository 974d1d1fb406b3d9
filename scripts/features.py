"""Print the behaviours of docs/features.md with the tests that carry their id, and those that no test shows yet.

Tests are found in the source, not by running them: `@pytest.mark.feature("I13")` on a function or class, or `pytestmark` of a module.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"^- \*\*(?P<id>[A-Z]\d+)\*\* \[(?P<stage>\d+)\] (?P<text>.*)$")


@dataclass(frozen=True)
class Feature:
    id: str
    stage: int
    text: str


def features() -> list[Feature]:
    matches = (LINE.match(line) for line in (ROOT / "docs" / "features.md").read_text().splitlines())
    return [Feature(m["id"], int(m["stage"]), m["text"]) for m in matches if m]


def marked_tests() -> dict[str, list[str]]:
    shown: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, feature in marks(ast.parse(file.read_text(), str(file))):
            shown[feature].append(f"{file.relative_to(ROOT)}::{test}")
    return shown


def marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    everywhere = {i for node in module.body if isinstance(node, ast.Assign) and names(node) == ["pytestmark"] for i in ids([node.value])}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            shared = everywhere | set(ids(node.decorator_list))
            for member in node.body:
                yield from marks_of(member, shared, f"{node.name}::")
        else:
            yield from marks_of(node, everywhere, "")


def marks_of(node: ast.stmt, shared: set[str], prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
        for feature in sorted(shared | set(ids(node.decorator_list))):
            yield prefix + node.name, feature


def names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def ids(expressions: Iterable[ast.expr]) -> Iterator[str]:
    for call in (node for expression in expressions for node in ast.walk(expression) if isinstance(node, ast.Call)):
        if ast.unparse(call.func).endswith("mark.feature"):
            yield from (str(a.value) for a in call.args if isinstance(a, ast.Constant))


def main() -> None:
    declared, shown = features(), marked_tests()
    for feature in declared:
        print(f"{feature.id:>4} [{feature.stage}] {feature.text}")
        for test in shown.get(feature.id, []):
            print(f"         {test}")
    without = [f for f in declared if f.id not in shown]
    print(f"\n{len(declared) - len(without)} of {len(declared)} have a test. Without one:")
    for stage in sorted({f.stage for f in without}):
        print(f"  [{stage}] {', '.join(f.id for f in without if f.stage == stage)}")
    if unknown := sorted(set(shown) - {f.id for f in declared}):
        sys.exit(f"Tests carry ids that docs/features.md does not have: {', '.join(unknown)}")


if __name__ == "__main__":
    main()
