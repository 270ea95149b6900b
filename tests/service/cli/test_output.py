"""Progress: bars on a terminal, a line now and then elsewhere, and nothing between results."""

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.terminal.output import Progress, print_json, print_note, print_table, shortened, show_progress
from tests.support.project_files import ROOT


def test_a_line_is_written_now_and_then_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(line_every_s=0.01) as progress:
        task, unknown = progress.add_task("scoring", 4), progress.add_task("reading", None)
        unknown.advance(3)
        task.update(1)
        noted = ""
        while "scoring  25% 1/4\n" not in noted or not re.search(r"^reading 3, \d+ s so far$", noted, re.MULTILINE):
            noted += capsys.readouterr().err
        task.advance()
        task.finish()
        unknown.finish()
    said, noted = capsys.readouterr()
    assert said == ""
    assert noted.splitlines()[-2:] == ["scoring 100% 2/2", "reading 100% 3/3"]


def fail_half_way(progress: Progress) -> None:
    progress.add_task("scoring", 4).advance()
    raise KeyError("a bug")


def test_short_work_and_failures_write_little(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress, progress.activity("loading"):
        pass
    assert capsys.readouterr() == ("", "")
    with pytest.raises(KeyError), show_progress() as progress:
        fail_half_way(progress)
    assert capsys.readouterr() == ("", "")
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_functions_of_the_models_report_tasks_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        for done in (1, 2):
            progress.report("scoring pairs", done, 2)
        progress.report("computing recalls", 1, 1)
    assert capsys.readouterr().err.splitlines() == ["scoring pairs 100% 2/2", "computing recalls 100% 1/1"]


def test_a_terminal_gets_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        patched.setenv("TERM", "xterm")
        with show_progress() as progress:
            with progress.activity("loading"):
                task = progress.add_task("scoring", 3)
            task.update(3)
    written = b""
    with contextlib.suppress(OSError):  # the end of what was written, once the terminal is closed
        while True:
            written += os.read(controller, 4096)
    os.close(controller)
    shown = written.decode()
    assert "scoring" in shown
    assert "3/3" in shown
    assert "\x1b[" in shown  # it moves


def test_columns_are_as_wide_as_their_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("a", "long head", rows=[["wide cell", "x"], ["", "y"]])
    assert capsys.readouterr().out.splitlines() == ["a          long head", "wide cell  x", "           y"]


def test_a_table_stays_in_line_whatever_strangers_called_their_files(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("name", "state", rows=[["a\x1b[2Jb\nc", "ready"], ["日本", "ready"], ["e\u0301", "ready"]])
    assert capsys.readouterr().out.splitlines() == [
        "name      state",
        "a\ufffd[2Jb\ufffdc  ready",
        "日本      ready",
        "e\u0301         ready",
    ]


@given(st.text(), st.integers(4, 50))
def test_what_is_shortened_is_one_line_of_that_length(text: str, longest: int) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    assert short.isprintable()
    if len(text) <= longest and text.isprintable() and text == " ".join(text.split()):
        assert short == text


@given(st.text())
def test_json_holds_every_text_and_nothing_that_steers_a_terminal(text: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        print_json({"caption": text, "list": [text]})
    assert json.loads(said.getvalue()) == {"caption": text, "list": [text]}
    assert all(one.isprintable() or one == "\n" for one in said.getvalue())


def test_notes_keep_their_lines_and_nothing_that_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_note("set aside: a\x1b]0;mine\x07.jpg\nand more")
    assert capsys.readouterr().err == "set aside: a\ufffd]0;mine\ufffd.jpg\nand more\n"


PRINTS = """
from service.cli.terminal.output import print_json, print_note, print_table, replace_unencodable
replace_unencodable()
print_table("name", rows=[["Kühe \u96ea"]])
print_note("Kühe \u96ea")
print_json({"name": "Kühe \u96ea \U0001f600"})
"""


@pytest.mark.parametrize(
    ("encoding", "name"), [("ascii", "K?he ?"), ("iso-8859-1", "Kühe ?"), ("utf-8", "Kühe \u96ea")]
)
def test_letters_that_a_locale_has_not_end_no_command(encoding: str, name: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ran = subprocess.run([sys.executable, "-c", PRINTS], env=environment, cwd=ROOT, capture_output=True, check=True)
    said = ran.stdout.decode(encoding)
    assert said.startswith(f"name\n{name}\n".replace("\n", os.linesep))
    assert ran.stderr.decode(encoding).strip() == name
    document = said.split("\n", 2)[2]
    assert json.loads(document) == {"name": "Kühe \u96ea \U0001f600"}
    assert document.isascii() == (encoding != "utf-8")


@pytest.mark.parametrize("arguments", [["--help"], ["keys", "list", "--json"]])
def test_a_command_ends_quietly_when_nobody_reads_on(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    command = [sys.executable, "-m", "service.cli.main", *arguments]
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, cwd=ROOT, check=False)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (128 + signal.SIGPIPE, b"")
