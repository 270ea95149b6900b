"""Sentences about the classes of objects: templates, plurals, and where a sentence names a class."""

from collections.abc import Mapping, Sequence

IRREGULAR = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "knife": "knives",
    "sheep": "sheep",
    "skis": "skis",
    "scissors": "scissors",
}
HISSING = ("s", "x", "z", "ch", "sh")


def plural(name: str) -> str:
    """The plural of a class name; only the last word changes: "wine glasses"."""
    *others, word = name.split()
    if word in IRREGULAR:
        changed = IRREGULAR[word]
    elif word.endswith(HISSING):
        changed = f"{word}es"
    elif word.endswith("y") and word[-2:-1] not in "aeiou":
        changed = f"{word[:-1]}ies"
    else:
        changed = f"{word}s"
    return " ".join([*others, changed])


def with_article(name: str) -> str:
    """A class name with "a" or "an"."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


TEMPLATES = ("X", "a X", "a photo of a X", "is there a X?", "Xs")


def from_template(template: str, name: str) -> str:
    """The sentence of one of TEMPLATES about a class: X is its name, Xs its plural."""
    sentences: Mapping[str, str] = {
        "X": name,
        "a X": with_article(name),
        "a photo of a X": f"a photo of {with_article(name)}",
        "is there a X?": f"is there {with_article(name)}?",
        "Xs": plural(name),
    }
    return sentences[template]


def class_places(words: Sequence[str], forms: Sequence[Sequence[str]]) -> list[int]:
    """Indices of the first run of words that equals one of a class's forms; empty if there is none.

    A form is a tuple of words, such as ("traffic", "lights").
    """
    for start in range(len(words)):
        for form in forms:
            if form and tuple(words[start : start + len(form)]) == tuple(form):
                return list(range(start, start + len(form)))
    return []
