"""Pictures in terminals: shown by what each terminal says it knows, and not at all where it says nothing."""

import base64
import io
import os
import re
import sys
import threading
from pathlib import Path

import PIL.Image
import pytest

from service.cli.terminal.pictures import (
    ROWS,
    PictureProtocol,
    ask_terminal,
    drawn_small,
    kitty_commands,
    sixels,
    terminal_protocol,
)
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.running_server import running_server

KITTY, ABILITIES = "\033_Gi=31;OK\033\\", "\033[?62;22c"
SIXELS_TOO = "\033[?62;4;22c"
XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environment", "answer", "expected"),
    [
        (XTERM, KITTY + ABILITIES, "kitty"),
        (XTERM, SIXELS_TOO, "sixel"),
        (XTERM, ABILITIES, None),
        (XTERM, "\033[?64;14c", None),  # 14 is not 4
        (XTERM, "\033_Gi=31;ENOTSUPPORTED\033\\" + ABILITIES, None),
        (XTERM, "", None),
        (XTERM | {"TERM_PROGRAM": "iTerm.app"}, "", "iterm"),
        (XTERM | {"TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/tmux"}, KITTY, None),
        (XTERM | {"STY": "1.pts"}, SIXELS_TOO, None),
        ({"TERM": "dumb"}, KITTY, None),
        ({}, KITTY, None),
    ],
)
def test_a_terminal_is_believed_about_itself(
    environment: dict[str, str], answer: str, expected: PictureProtocol | None
) -> None:
    assert terminal_protocol(environment, lambda query: answer) == expected


def test_the_terminal_is_asked_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    import termios  # noqa: PLC0415

    master, slave = os.openpty()
    before = termios.tcgetattr(slave)
    asked = []

    def terminal() -> None:
        asked.append(os.read(master, 1024))
        os.write(master, SIXELS_TOO.encode())

    with os.fdopen(slave, "r", closefd=False) as ear, os.fdopen(os.dup(slave), "w") as mouth:
        monkeypatch.setattr(sys, "stdin", ear)
        monkeypatch.setattr(sys, "stdout", mouth)
        monkeypatch.setattr("service.cli.terminal.pictures.TERMINAL_ANSWER_S", 600.0)
        thread = threading.Thread(target=terminal)
        thread.start()
        assert SIXELS_TOO in ask_terminal("\033[c")
        thread.join()
        monkeypatch.setattr("service.cli.terminal.pictures.TERMINAL_ANSWER_S", 0.0)
        assert ask_terminal("\033[c") == ""  # it says nothing
        monkeypatch.undo()
    assert asked == [b"\033[c"]
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)


def test_kittys_commands_hold_the_picture_in_parts() -> None:
    content = os.urandom(10_000)
    parts = re.findall(r"\033_G([^;]*);([^\033]*)\033\\", kitty_commands(content))
    assert base64.b64decode("".join(part for _, part in parts)) == content
    assert all(len(part) <= 4096 for _, part in parts)
    assert [keys.rpartition("m=")[2] for keys, _ in parts] == ["1"] * (len(parts) - 1) + ["0"]
    assert f"r={ROWS}" in parts[0][0]


def test_iterm_gets_the_file_itself() -> None:
    jpeg = encoded(two_coloured("red", "blue", 80, 40), "JPEG")
    found = re.fullmatch(r"\033\]1337;File=([^:]*):([^\a]*)\a", drawn_small(jpeg, "iterm"))
    assert found is not None
    assert base64.b64decode(found[2]) == jpeg
    assert f"size={len(jpeg)};height={ROWS}" in found[1]


def from_sixels(text: str) -> PIL.Image.Image:
    """The picture that a terminal would show."""
    head = re.match(r'\033Pq"1;1;(\d+);(\d+)', text)
    assert head is not None
    picture = PIL.Image.new("RGB", (int(head[1]), int(head[2])))
    body, colours, top = text[head.end() : -2], {}, 0
    for number, red, green, blue in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", body):
        colours[number] = tuple(round(int(one) * 2.55) for one in (red, green, blue))
    for band in re.sub(r"#\d+;2;\d+;\d+;\d+", "", body).split("-")[:-1]:
        for number, marks in re.findall(r"#(\d+)([?-~]*)\$", band):
            for x, mark in enumerate(marks):
                for row in range(6):
                    if (ord(mark) - 63) >> row & 1:
                        picture.putpixel((x, top + row), colours[number])
        top += 6
    return picture


@pytest.mark.parametrize("size", [(40, 20), (7, 13), (1, 1)])
def test_sixels_show_the_picture(size: tuple[int, int]) -> None:
    picture = two_coloured("red", "blue", *size) if size[0] > 1 else PIL.Image.new("RGB", size, "red")
    shown = from_sixels(sixels(picture))
    assert shown.size == picture.size
    assert shown.tobytes() == picture.tobytes()


@pytest.mark.parametrize("protocol", ["kitty", "sixel"])
def test_a_large_thumbnail_is_made_as_high_as_its_lines(protocol: PictureProtocol) -> None:
    text = drawn_small(encoded(two_coloured("red", "blue", 320, 240), "JPEG"), protocol)
    if protocol == "sixel":
        shown = from_sixels(text)
    else:
        content = "".join(re.findall(r";([^\033]*)\033\\", text))
        shown = PIL.Image.open(io.BytesIO(base64.b64decode(content)))
    assert shown.height == 100
    assert abs(shown.width - 133) <= 1


def test_results_are_shown_small_where_the_terminal_can(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_coloured("red", "red").save(tmp_path / "red.png")
    with running_server(tmp_path / "data") as url:
        assert regard("ingest", tmp_path / "red.png", "--url", url)[0] == 0
        monkeypatch.setattr("service.cli.terminal.pictures.terminal_protocol", lambda: "kitty")
        assert "\033" not in regard("search", "red", "--url", url)[1]  # it is no terminal
        monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
        _, said, _ = regard("search", "red", "--url", url)
        assert said.splitlines()[3] == "1 red.png"
        assert said.splitlines()[4].startswith("\033_Ga=T")
        two_coloured("red", "blue").save(tmp_path / "other.png")
        assert "\033_G" in regard("similar", tmp_path / "other.png", "--url", url)[1]
        for options in (["--no-thumbnails"], ["--json"]):
            assert "\033" not in regard("search", "red", "--url", url, *options)[1]
