"""Every test that the page of promises names is there, and every promise names one."""

import ast
import re

import pytest

from tests.support.project_files import ROOT

PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def functions(path: str) -> set[str]:
    """The names of the functions at the top of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def missing(text: str) -> list[str]:
    """The tests, or files of tests, that a text names and that are not there."""
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if not (ROOT / path).is_file() or (name and (not name.startswith("test_") or name not in functions(path)))
    ]


def promises() -> list[str]:
    """The rows of the tables, without their heads."""
    tables, _, _ = PAGE.partition("## The kill loop")
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith("| promise |")]


def test_every_test_that_is_named_is_there() -> None:
    assert len(NAMED.findall(PAGE)) > 50
    assert missing(PAGE) == []


@pytest.mark.parametrize("row", promises())
def test_every_promise_is_tried(row: str) -> None:
    assert NAMED.search(row) or "the same two" in row


def test_a_test_that_is_gone_is_missed() -> None:
    here = "tests/project/test_trust.py"
    assert len(missing(f"`{here}::test_of_nothing`, `tests/nowhere.py` and `{here}::missing`")) == 3
    assert missing(f"`{here}::test_a_test_that_is_gone_is_missed`") == []
