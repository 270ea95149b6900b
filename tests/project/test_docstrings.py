"""Docstrings have the thing as their subject, say more than its name, and consist of sentences."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project.test_house import WRITTEN_BY_PROGRAMS
from tests.support.project_files import ROOT, python_files

# Beginnings by which a docstring is about its reader's question, or about another docstring, instead of the thing.
RIDDLES = re.compile(
    r"(The same|Same|Ditto|See|What|Who|How (far|many|much|long|often|near|large|well|it|every|to)|Itself|Those"
    r"|All of (it|them)|As above|Which (pictures|captions)|Where (pictures|it|they))\b"
)
# Names of classes as a sentence, which leave open when each is raised: "UnknownPlace." or "NotFound, Overloaded."
BARE_NAMES = re.compile(r"(?:^|[.;:] )[A-Z]\w*(?:(?:,| or|, or) [A-Z]\w*)*(?:[.;] |[.;]$)")
# A number that the reader is to look for, where the parameter has a name: "`limit` at most".
UNNAMED_NUMBER = re.compile(r"\bso many\b")
ENDINGS = re.compile(r"(ing|ed|es|s|e)$")
PARTICLES = {"a", "an", "the", "of", "is", "are", "this", "that", "its", "it", "to", "for", "in", "on", "by", "with"}


def docstrings(source: str) -> Iterator[tuple[str, str]]:
    """Names and docstrings of the module ("" for its name), its classes and its functions, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", ""), text


def stems(text: str) -> set[str]:
    """The words of a text or of a name in any case, without particles and endings."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ").lower()
    return {ENDINGS.sub("", word) for word in re.findall(r"[a-z]+", spaced) if word not in PARTICLES}


def faults(source: str) -> list[str]:
    """Names of a file with the docstrings that are no descriptions."""
    return [
        f"{name or 'module'}: {text}"
        for name, text in docstrings(source)
        if RIDDLES.match(text)
        or (name and stems(text) <= stems(name))
        or any(fault.search(" ".join(text.split())) for fault in (BARE_NAMES, UNNAMED_NUMBER))
    ]


@pytest.mark.parametrize("top", ["models", "index", "service", "clients"])
def test_docstrings_describe(top: str) -> None:
    found = {path: faults((ROOT / path).read_text(encoding="utf-8")) for path in python_files(top)}
    assert {path: some for path, some in found.items() if some and path not in WRITTEN_BY_PROGRAMS} == {}, (
        "begin with the thing, say more than its name, in whole sentences; RIDDLES and BARE_NAMES are not allowed"
    )


@pytest.mark.parametrize(
    "source",
    [
        '"""What a file holds."""',
        'class Bank:\n    """The same for sentences."""',
        'def wait():\n    """See Wakeups."""',
        'class A:\n    async def identity(self):\n        """Itself."""',
        'def add_shard():\n    """Add a shard."""',
        'class RowCosines:\n    """The cosines of a row."""',
        'def job():\n    """How far the job is."""',
        'def page():\n    """Pictures after the place. UnknownPlace."""',
        'def erase(limit):\n    """Erase pictures, so\n    many at most."""',
        'def find():\n    """The path of a file.\n\n    NotFound, Overloaded; what is raised below."""',
    ],
)
def test_a_docstring_that_describes_nothing_is_found(source: str) -> None:
    assert len(faults(source)) == 1


def test_a_description_is_left_alone() -> None:
    assert faults('"""The files of a snapshot."""\ndef add_shard():\n    """Add a shard; its number."""') == []
    assert faults('def page():\n    """Pictures after the place. Raises UnknownPlace where it is none."""') == []
