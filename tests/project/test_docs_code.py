"""The code in documents is right: commands, flags, settings, files and names exist, examples are real."""

import ast
import io
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import typer

from docs.images import answer_svg
from docs.images.draw import DRAWINGS, encoded, painted
from service.cli.main import app
from service.settings import PREFIX, ClientSettings, ClusterSettings, Settings
from tests.support.documents import code_of, programs_of
from tests.support.project_files import ROOT, project_files, text_files

DOCUMENTS = [path for path in project_files() if path.endswith(".md")]
TOLD = [path for path in DOCUMENTS if path != "CHANGELOG.md"]  # which also speaks of what was
OPTION = re.compile(r"--[a-z][\w-]*|-[a-zA-Z]")
OUR_PATH = re.compile(r"(?<![\w./-])((?:models|index|service|tests|benchmarks|docs)/[\w./*-]*)")
OUR_NAME = re.compile(r"(?<![\w./-])((?:models|index|service|tests|benchmarks|docs)(?:\.\w+)+)(?!\w*/)")
FILE_TYPES = {"md", "json", "jsonl", "py", "svg", "txt", "npy"}
PYTHON = {"python", "python3"}
GROUPS = {"keys", "cluster"}  # commands that have commands of their own
OUTSIDE = {"REGARD_TEST_DATA", "REGARD_URL"}  # read by the tests alone, and by the Python client


@cache
def program() -> tuple[Any, Any]:
    """The program `regard` and a context to ask it in; Typer has Click inside, under a name of its own."""
    made = typer.main.get_command(app)
    return made, made.make_context("regard", [], resilient_parsing=True)


@cache
def flags(command: str | None) -> frozenset[str]:
    """The flags of a command of `regard`, or of the program itself. KeyError for a command that is not there."""
    found, context = program()
    for name in [] if command is None else command.split():
        found = found.get_command(context, name) if hasattr(found, "get_command") else None
        if found is None:
            raise KeyError(command)
    return frozenset(flag for one in found.params for flag in [*one.opts, *one.secondary_opts]) | {"--help"}


def wrong_calls(text: str) -> list[str]:
    """Calls of `regard` that name no command, or a flag that their command has not."""
    wrong = []
    for arguments in programs_of(text, "regard"):
        name = arguments[0]
        if name == "...":
            continue
        command = None if name.startswith("-") else name
        if name in GROUPS and len(arguments) > 1 and not arguments[1].startswith("-"):
            command = f"{name} {arguments[1]}"
        try:
            known = flags(command)
        except KeyError:
            wrong.append(f"regard {command}")
            continue
        given = [word.partition("=")[0] for word in arguments]
        wrong += [f"regard {command} {flag}" for flag in given if OPTION.fullmatch(flag) and flag not in known]
    return wrong


@pytest.mark.parametrize("document", DOCUMENTS)
def test_calls_of_the_program_name_commands_and_flags_that_exist(document: str) -> None:
    assert wrong_calls((ROOT / document).read_text(encoding="utf-8")) == []


def test_a_wrong_call_is_found() -> None:
    text = """Say `regard serve --port 1 --prot 2`, `A=1 .venv/bin/regard  find` or `regard search
    --k 3`; not `regard`, `regard.py --x` or `regard --help`.

```sh
regard train scan --set a=b \\
    --nothing   # --comment
regard evaluate --json > --other
regard search "a dog" -k 3 -q
regard keys create me --permission read --port 1
regard keys lose me
```
"""
    assert sorted(wrong_calls(text)) == [
        "regard find",
        "regard keys create --port",
        "regard keys lose",
        "regard search --k",
        "regard search -q",
        "regard serve --prot",
        "regard train --nothing",
    ]


@cache
def all_flags() -> frozenset[str]:
    """The flags of all commands and of all benchmarks."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    group, context = program()
    return frozenset(re.findall(r'"(--[a-z][\w-]*)"', sources)).union(*map(flags, group.list_commands(context)))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_flags_that_are_named_alone_exist(document: str) -> None:
    code = code_of((ROOT / document).read_text(encoding="utf-8"))
    named = {word for line in code if line.startswith("--") for word in line.split()[:1]}
    assert {name.partition("=")[0] for name in named} <= all_flags()


def test_the_document_of_the_command_line_names_every_command() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = text[text.index("| calls a service |") :].partition("\n\n")[0]
    group, context = program()
    assert set(group.list_commands(context)) - set(re.findall(r"`([\w-]+)`", table)) == set(), (
        "add them to the table of docs/cli.md"
    )


def with_shared_arguments(program: str) -> str:
    """The source of a program, and those of the benchmarks that it imports from."""
    source = (ROOT / (program.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    shared = re.findall(r"^from (benchmarks\.\w+) import", source, re.MULTILINE)
    return "\n".join(
        [source, *((ROOT / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8") for name in shared)]
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_scripts_that_are_called_exist_with_their_flags(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for words in [words for name in PYTHON for words in programs_of(text, name)]:
        if words[0] != "-m" or words[1].partition(".")[0] not in ("benchmarks", "docs", "models", "service"):
            continue
        source = with_shared_arguments(words[1])
        assert [word for word in words[2:] if word.startswith("--") and f'"{word}"' not in source] == [], words[1]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    calls = programs_of((ROOT / document).read_text(encoding="utf-8"), "make")
    assert {words[0] for words in calls if "=" not in words[0]} <= set(phony.split())


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != "docs/settings.md"])
def test_settings_that_are_named_exist(document: str) -> None:
    code = "\n".join(code_of((ROOT / document).read_text(encoding="utf-8")))
    named = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", code))
    settings = (*Settings.model_fields, *ClientSettings.model_fields, *ClusterSettings.model_fields)
    assert named - OUTSIDE <= {f"{PREFIX}{name.upper()}" for name in settings}


@pytest.mark.parametrize("document", TOLD)
def test_files_that_are_named_exist(document: str) -> None:
    code = "\n".join(code_of((ROOT / document).read_text(encoding="utf-8")))
    for path in OUR_PATH.findall(code):
        pattern = "/".join("*" if part.isupper() else part for part in path.rstrip("/.").split("/"))
        assert list(ROOT.glob(pattern)), f"there is no {path}"


def defined(source: str, name: str) -> ast.AST | None:
    """Where a module defines a name at its top, or imports it."""
    for node in ast.parse(source).body:
        names = [getattr(node, "name", None)]
        if isinstance(node, ast.Assign):
            names = [getattr(target, "id", None) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            names = [getattr(node.target, "id", None)]
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.asname or alias.name for alias in node.names]
        if name in names:
            return node
    return None


def exists(dotted: str) -> bool:
    """Whether a dotted name is a package, a module, or a name at the top of a module; nothing is imported."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:end]), parts[end:]
        if place.is_dir() and not rest:
            return True
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return not rest or defined(file.read_text(encoding="utf-8"), rest[0]) is not None
    return False


@pytest.mark.parametrize("document", TOLD)
def test_modules_that_are_named_exist(document: str) -> None:
    code = "\n".join(code_of((ROOT / document).read_text(encoding="utf-8")))
    named = {name for name in OUR_NAME.findall(code) if name.rpartition(".")[2] not in FILE_TYPES}
    assert [name for name in sorted(named) if not exists(name)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert OUR_NAME.findall("see models.a.b and .models.c, docs/models.md") == ["models.a.b"]
    assert exists("service.settings")
    assert exists("service.settings.Settings")
    assert exists("models")
    assert not exists("service.settings.Sittings")
    assert not exists("models.nothing")


def test_documents_that_are_named_exist() -> None:
    pattern = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.md")
    named = [(path, name) for path in text_files() for name in pattern.findall((ROOT / path).read_text("utf-8"))]
    assert [(path, name) for path, name in named if not (ROOT / name).is_file()] == []
    assert len(named) > 100


def is_part(part: Any, whole: Any) -> bool:
    """Whether a value was made of another by leaving out fields of objects and digits of numbers."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and is_part(part[name], whole[name]) for name in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_part, part, whole))
    if isinstance(part, float):
        return bool(part == pytest.approx(whole, abs=5e-4))
    return bool(part == whole)


def test_the_answer_in_the_readme_is_part_of_a_real_one() -> None:
    answer = json.loads(answer_svg.ANSWER.read_text(encoding="utf-8"))
    (shown,) = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert is_part(json.loads(shown), answer)
    assert json.dumps(answer["query"]) in (ROOT / "README.md").read_text(encoding="utf-8").partition("```json")[0]
    assert not is_part({"query": "another"}, answer)
    # Contributions are several times as large as a score near 0, and both are in single precision.
    contributions, score = answer["results"][0]["explanation"]["contributions"], answer["results"][0]["score"]
    assert sum(contributions) == pytest.approx(score, abs=1e-6 * sum(map(abs, contributions)))


def test_the_picture_of_the_answer_is_drawn_from_it() -> None:
    command = [sys.executable, "-m", "docs.images.answer_svg"]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert drawn == (ROOT / "docs" / "images" / "answer.svg").read_text(encoding="utf-8"), " ".join(command[1:])


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_drawings_are_drawn_by_the_program(name: str) -> None:
    files = (ROOT / "docs/images/drawings" / name).read_bytes(), encoded(painted(DRAWINGS[name]()))
    kept, drawn = (np.asarray(PIL.Image.open(io.BytesIO(file)).convert("RGB"), np.int16) for file in files)
    assert kept.shape == drawn.shape
    assert np.abs(kept - drawn).mean() < 0.5  # a Pillow of another version may smooth edges in another way


def test_the_drawings_are_all_there() -> None:
    assert {path.name for path in Path(ROOT / "docs/images/drawings").iterdir()} == set(DRAWINGS)
