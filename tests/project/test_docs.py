"""The documents say what is there: links lead somewhere, every setting is listed, every weight has its card."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from models.extractors.faster_rcnn.extractor import load_detector
from models.matching.checkpoint import WEIGHTS
from service.settings import PREFIX, Settings
from tests.support.project_files import ROOT, project_files

DOCUMENTS = [path for path in project_files() if path.endswith(".md")]
# [text](target "title") and ![..](..), not what stands in code.
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
MARKED = re.compile(r"^.*<!--.*-->$", re.MULTILINE)  # lines that a program writes or reads
LONGEST_LINE = 120
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


def without_code(text: str) -> str:
    """The text with code blocks and code spans taken out."""
    return CODE.sub("", text)


def anchors(document: Path) -> set[str]:
    """The names that headings of a document get on the usual code hosts."""
    headings = HEADING.findall(re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    """The relative links of a document that lead nowhere."""
    broken = []
    for target in LINK.findall(without_code(document.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        found = document.parent / name if name else document
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    assert broken_links(ROOT / document) == []


def long_lines(text: str) -> list[int]:
    """The numbers of lines over 120 characters, besides rows of tables."""
    lines = enumerate(text.splitlines(), start=1)
    return [number for number, line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if not path.startswith("models/weights/")])
def test_lines_can_be_read_in_an_editor(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    if document == "README.md":
        assert max(map(len, text.splitlines())) <= LONGEST_LINE
    assert long_lines(MARKED.sub("", text)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here I am\n[a](page.md#here-i-am) [b](gone.md) [c](#nowhere) `[d](code.md)` [e](page.md)\n")
    assert broken_links(page) == ["gone.md", "#nowhere"]


def written(name: str) -> str:
    """What `make docs` would write."""
    script = ROOT / "docs" / "settings_table.py"
    ran = subprocess.run([sys.executable, script, name], capture_output=True, text=True, check=True, cwd=ROOT)
    return ran.stdout


@pytest.mark.parametrize(("path", "name"), [("docs/settings.md", "settings.md"), (".env.example", ".env.example")])
def test_settings_are_documented_as_they_are(path: str, name: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == written(name), "run `make docs`"


def test_every_setting_says_what_it_does() -> None:
    table = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert f"`{PREFIX}{name.upper()}`" in table


def test_every_setting_is_a_flag() -> None:
    program = Path(sys.executable).with_name("regard")
    ran = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True)
    said = set(re.findall(r"--[a-z][a-z0-9-]*", ran.stdout))
    assert {"--" + name.replace("_", "-") for name in Settings.model_fields} <= said


def test_shipped_weights_say_where_they_come_from() -> None:
    """What they learnt from, under which licence, how good they are, the command, and that it is they."""
    folders = [path for path in WEIGHTS.glob("*") if path.is_dir()]
    assert folders
    for folder in folders:
        card = (folder / "card.md").read_text(encoding="utf-8").lower()
        detector = (folder / "digest").exists() is False
        digest = load_detector(folder).digest if detector else (folder / "digest").read_text().strip()
        missing = [word for word in ("data", "licence", "digest", digest[:12]) if word not in card]
        assert missing == [], f"the card of {folder.name} does not speak of these"
        assert re.search(r"regard train|models\.train", card), f"the card of {folder.name} names no command"
        assert re.search(r"recall|r@1", card), f"the card of {folder.name} does not say how good it is"


def test_a_generator_that_fails_leaves_its_file_as_it_was(tmp_path: Path) -> None:
    for folder in (".venv/bin", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "docs/settings.md").write_text("written before")
    ran = subprocess.run(["make", "-C", str(tmp_path), "-o", ".venv/.dev", "docs"], capture_output=True, check=False)
    assert ran.returncode != 0
    assert (tmp_path / "docs/settings.md").read_text() == "written before"


def test_what_the_makefile_offers_is_what_its_help_lists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    ran = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True)
    assert {name for name in phony.split() if name != "help"} <= set(re.findall(r"[a-z][a-z-]*", ran.stdout))
