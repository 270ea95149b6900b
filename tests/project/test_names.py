"""Names: what is public is called so in one file of its top folder alone."""

import ast

import pytest

from tests.support.project_files import ROOT, python_files

# Public names that several files of one top folder define, each with the reason.
SHARED_NAMES: dict[str, dict[str, str]] = {
    "models": {"T": "a type variable"},
    "index": {"log": "each module's logger"},
    "service": {
        "T": "a type variable",
        "Ts": "type variables",
        "ingest": "the command and the route of this name",
        "log": "each module's logger",
        "main": "the program, and that of a decoding process",
        "router": "each route file's APIRouter, which api/app.py collects",
    },
    "clients": {"A": "a type variable"},
}
MOST_SHARED = 10


def public_names(path: str) -> set[str]:
    """Functions, classes, constants and type aliases that a file defines at its top."""
    names: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("top", ["models", "index", "service", "clients"])
def test_a_public_name_is_defined_once(top: str) -> None:
    places: dict[str, list[str]] = {}
    for path in python_files(top):
        for name in public_names(path):
            places.setdefault(name, []).append(path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name: paths for name, paths in shared.items() if name not in SHARED_NAMES[top]} == {}, (
        "rename all but one of each, or begin the names that are used in one file alone with _"
    )
    assert set(SHARED_NAMES[top]) <= set(shared), "names that are no longer shared"
    assert len(SHARED_NAMES[top]) <= MOST_SHARED
    assert all(SHARED_NAMES[top].values())
