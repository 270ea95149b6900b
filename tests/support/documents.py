"""Code in documents: blocks, spans, and the command lines in them."""

import re
import shlex
from collections.abc import Iterator

FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
ENDS = {">", "|", "||", "&&", ";", "&"}  # what follows belongs to another program


def code_of(markdown: str) -> Iterator[str]:
    """Every line of code blocks (continued lines joined) and every code span (on one line)."""
    for _, block in FENCE.findall(markdown):
        yield from (line.strip() for line in re.sub(r"\\\n\s*", "", block).splitlines())
    for span in SPAN.findall(FENCE.sub("", markdown)):
        yield " ".join(span.split())


def commands_of(markdown: str) -> Iterator[list[str]]:
    """The words of everything in code that a shell could read, without variables set before and without comments."""
    for line in code_of(markdown):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # quotes of another language
            continue
        while words and ASSIGNMENT.fullmatch(words[0]):
            words.pop(0)
        end = next((n for n, word in enumerate(words) if word in ENDS), len(words))
        if words[:end]:
            yield words[:end]


def programs_of(markdown: str, name: str) -> Iterator[list[str]]:
    """The arguments of every call of a program, wherever it lies."""
    for words in commands_of(markdown):
        if words[0].rpartition("/")[2] == name and len(words) > 1:
            yield words[1:]
