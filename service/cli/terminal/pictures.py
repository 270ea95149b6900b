"""Small pictures in terminals that can show them: in kitty's protocol, in iTerm2's, or as sixels.

iTerm2's protocol is recognized by an environment variable; for the others the terminal is queried. There are no
pictures inside tmux and screen, which do not forward them, or if the output is not a terminal.
"""

import base64
import io
import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import PIL.Image

PictureProtocol = Literal["kitty", "iterm", "sixel"]

ROWS = 5  # height of a picture in lines of text
CELL_HEIGHT = 20  # assumed height of a line in pixels
KITTY_CHUNK = 4096  # bytes of base64 in one command of kitty's protocol
SIXEL_COLOURS = 64
TERMINAL_ANSWER_S = 0.3  # a terminal answers within milliseconds, over a slow connection within tenths of a second
# A query in kitty's protocol with a picture of one pixel, then one for device attributes, which every terminal answers.
KITTY_QUERY = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\"
ABILITIES_QUERY = "\033[c"
KITTY_ANSWER, ABILITIES_ANSWER = re.compile(r"\033_Gi=31;OK\033\\"), re.compile(r"\033\[\?([\d;]*)c")
SIXEL_ABILITY = "4"
ITERM_PROGRAMS = ("iTerm.app", "WezTerm")
MULTIPLEXERS = ("TMUX", "STY")


def terminal_protocol(
    environment: Mapping[str, str] = os.environ, ask: Callable[[str], str] | None = None
) -> PictureProtocol | None:
    """The protocol that the terminal supports; None if there is none. `ask` sends a query and returns the answer."""
    if any(name in environment for name in MULTIPLEXERS) or environment.get("TERM") in (None, "dumb"):
        return None
    if environment.get("TERM_PROGRAM") in ITERM_PROGRAMS:
        return "iterm"
    answer = (ask or ask_terminal)(KITTY_QUERY + ABILITIES_QUERY)
    if KITTY_ANSWER.search(answer):
        return "kitty"
    abilities = ABILITIES_ANSWER.search(answer)
    return "sixel" if abilities and SIXEL_ABILITY in abilities[1].split(";") else None


def ask_terminal(query: str) -> str:
    """The terminal's answer to a query; empty if it does not answer, or input or output is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return ""
    import termios  # not available on every system
    import tty

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    answer = ""
    try:
        tty.setcbreak(handle)
        sys.stdout.write(query)
        sys.stdout.flush()
        deadline = time.monotonic() + TERMINAL_ANSWER_S
        while not ABILITIES_ANSWER.search(answer):
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            answer += os.read(handle, 1024).decode("latin-1")
    finally:
        termios.tcsetattr(handle, termios.TCSANOW, before)
    return answer


def drawn_small(jpeg: bytes, protocol: PictureProtocol) -> str:
    """The control sequence that shows a picture ROWS lines high when it is printed."""
    if protocol == "iterm":
        content = base64.b64encode(jpeg).decode()
        return f"\033]1337;File=inline=1;size={len(jpeg)};height={ROWS};preserveAspectRatio=1:{content}\a"
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as opened:
        opened.thumbnail((16 * CELL_HEIGHT, ROWS * CELL_HEIGHT))
        picture = opened.convert("RGB")
    if protocol == "sixel":
        return sixels(picture)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return kitty_commands(buffer.getvalue())


def kitty_commands(png: bytes) -> str:
    """The commands of kitty's protocol that show a PNG."""
    content = base64.b64encode(png).decode()
    parts = [content[start : start + KITTY_CHUNK] for start in range(0, len(content), KITTY_CHUNK)]
    commands = []
    for number, part in enumerate(parts):
        more = f"m={int(number < len(parts) - 1)}"
        keys = f"a=T,f=100,r={ROWS},q=2,{more}" if number == 0 else more
        commands.append(f"\033_G{keys};{part}\033\\")
    return "".join(commands)


def sixels(picture: "PIL.Image.Image") -> str:
    """The picture in bands of six lines, with at most SIXEL_COLOURS colours."""
    few = picture.quantize(SIXEL_COLOURS)
    palette, pixels, width, height = few.getpalette() or [], few.tobytes(), few.width, few.height
    colours = range(len(palette) // 3)
    percent = [round(100 * value / 255) for value in palette]
    out = [f'\033Pq"1;1;{width};{height}']
    out += [f"#{n};2;{percent[3 * n]};{percent[3 * n + 1]};{percent[3 * n + 2]}" for n in colours]
    for top in range(0, height, 6):
        rows = [pixels[row * width : (row + 1) * width] for row in range(top, min(top + 6, height))]
        for colour in sorted(set(b"".join(rows))):
            marks = (sum((row[x] == colour) << n for n, row in enumerate(rows)) for x in range(width))
            out.append(f"#{colour}{''.join(chr(63 + mark) for mark in marks)}$")
        out.append("-")
    return "".join([*out, "\033\\"])
