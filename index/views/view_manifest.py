"""The manifest of a view: its model, its layout and how many of its rows count; one small file, replaced whole."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from index import files
from index.views.slab import Corrupt

NAME = "manifest.json"
MANIFEST_FORMAT = 1
MOST_REPLACED = 1000  # in a generation: beyond, readers load the view afresh


class Counts(NamedTuple):
    """Rows that count: image rows are region slots, caption rows are caption slots."""

    images: int
    captions: int


class ViewMismatch(ValueError):
    """The folder holds the view of another model, layout or extractor; the message says which."""


class NoView(FileNotFoundError):
    """There is no view in the folder yet."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of a view. `layout`: field -> [shape, numpy dtype] of one image's record.

    A new `generation`: rows were cut, or many replaced. `replaced`: rows of images that were in this one, in order.
    """

    digest: str
    extractor: str
    embed_dim: int
    word_dim: int
    layout: dict[str, tuple[tuple[int, ...], str]]
    images: int = 0
    captions: int = 0
    generation: str = field(default_factory=lambda: secrets.token_hex(8))
    replaced: tuple[int, ...] = ()

    @property
    def counts(self) -> Counts:
        """Rows that count."""
        return Counts(self.images, self.captions)

    def at(self, counts: Counts) -> Self:
        """The manifest with more rows."""
        return replace(self, images=counts.images, captions=counts.captions)

    def renewed(self, counts: Counts) -> Self:
        """The manifest with fewer rows, or others in their places, which readers must load afresh."""
        return replace(self.at(counts), generation=secrets.token_hex(8), replaced=())

    def overwritten(self, rows: Sequence[int]) -> Self:
        """The manifest with other images in the places of these rows."""
        replaced = (*self.replaced, *rows)
        if len(replaced) > MOST_REPLACED:
            return self.renewed(self.counts)
        return replace(self, replaced=replaced)

    @property
    def edition(self) -> str:
        """A word that changes whenever rows that were there are gone, or are others."""
        return f"{self.generation}-{len(self.replaced)}"

    def refuse_other(self, wanted: "Manifest", folder: Path) -> None:
        """Raise ViewMismatch, naming every difference, unless both describe the same view."""
        parts = ("digest", "extractor", "embed_dim", "word_dim", "layout")
        found = {part: getattr(self, part) for part in parts}
        other = [
            f"{part} {found[part]}, not {getattr(wanted, part)}"
            for part in parts
            if found[part] != getattr(wanted, part)
        ]
        if other:
            raise ViewMismatch(f"the view in {folder} has {'; '.join(other)}: it must be built anew")

    def save(self, folder: Path) -> None:
        """Publish, durably."""
        files.replace_file(folder / NAME, json.dumps({"format": MANIFEST_FORMAT, **asdict(self)}, indent=1).encode())

    @classmethod
    def parse(cls, content: bytes, folder: Path) -> Self:
        """The manifest in the file's bytes; Corrupt when they hold none, ViewMismatch for another format."""
        try:
            found: dict[str, Any] = json.loads(content)
            version = found.pop("format")
            layout = {name: (tuple(shape), dtype) for name, (shape, dtype) in found.pop("layout").items()}
            replaced = tuple(int(row) for row in found.pop("replaced", ()))
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise Corrupt(f"{folder / NAME} is damaged: {error}") from error
        if version != MANIFEST_FORMAT:
            raise ViewMismatch(
                f"the view in {folder} has format {version}, not {MANIFEST_FORMAT}: it must be built anew"
            )
        try:
            return cls(layout=layout, replaced=replaced, **found)
        except TypeError as error:  # a part is missing, or there is one too many
            raise Corrupt(f"{folder / NAME} is damaged: {error}") from error


def read(folder: Path) -> bytes:
    """The manifest's bytes; NoView when there are none."""
    try:
        return (folder / NAME).read_bytes()
    except FileNotFoundError as error:
        raise NoView(f"there is no view in {folder}") from error
