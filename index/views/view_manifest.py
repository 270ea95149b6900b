"""The manifest of a view: its model, its layout and its published row counts; one small file, replaced atomically."""

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
MOST_REPLACED = 1000  # in a generation: beyond, readers reload the view


class Counts(NamedTuple):
    """Numbers of published rows: image rows are region slots, caption rows are caption slots."""

    images: int
    captions: int


class ViewMismatch(ValueError):
    """The folder holds the view of another model, layout or extractor; the message says which."""


class NoView(FileNotFoundError):
    """There is no view in the folder yet."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of a view. `layout`: field -> [shape, numpy dtype] of one image's record.

    A new `generation` means that rows were cut, or many replaced. `replaced`: the image rows replaced in this
    generation, in order.
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
        """Numbers of published rows."""
        return Counts(self.images, self.captions)

    def at(self, counts: Counts) -> Self:
        """The manifest with more rows."""
        return replace(self, images=counts.images, captions=counts.captions)

    def renewed(self, counts: Counts) -> Self:
        """The manifest with fewer rows, or with others in their places, so that readers reload the view."""
        return replace(self.at(counts), generation=secrets.token_hex(8), replaced=())

    def overwritten(self, rows: Sequence[int]) -> Self:
        """The manifest after these image rows were replaced."""
        replaced = (*self.replaced, *rows)
        if len(replaced) > MOST_REPLACED:
            return self.renewed(self.counts)
        return replace(self, replaced=replaced)

    @property
    def edition(self) -> str:
        """An id that changes whenever existing rows are removed or replaced."""
        return f"{self.generation}-{len(self.replaced)}"

    def refuse_other(self, expected: "Manifest", folder: Path) -> None:
        """Raise ViewMismatch, naming every difference, unless both describe the same view."""
        parts = ("digest", "extractor", "embed_dim", "word_dim", "layout")
        values = {part: getattr(self, part) for part in parts}
        other = [
            f"{part} {values[part]}, not {getattr(expected, part)}"
            for part in parts
            if values[part] != getattr(expected, part)
        ]
        if other:
            raise ViewMismatch(f"the view in {folder} has {'; '.join(other)}: it must be built anew")

    def save(self, folder: Path) -> None:
        """Publish the manifest, durably."""
        files.replace_file(folder / NAME, json.dumps({"format": MANIFEST_FORMAT, **asdict(self)}, indent=1).encode())

    @classmethod
    def parse(cls, content: bytes, folder: Path) -> Self:
        """The manifest in the file's bytes; Corrupt if there is none, ViewMismatch for another format."""
        try:
            content_fields: dict[str, Any] = json.loads(content)
            version = content_fields.pop("format")
            layout = {name: (tuple(shape), dtype) for name, (shape, dtype) in content_fields.pop("layout").items()}
            replaced = tuple(int(row) for row in content_fields.pop("replaced", ()))
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise Corrupt(f"{folder / NAME} is damaged: {error}") from error
        if version != MANIFEST_FORMAT:
            raise ViewMismatch(
                f"the view in {folder} has format {version}, not {MANIFEST_FORMAT}: it must be built anew"
            )
        try:
            return cls(layout=layout, replaced=replaced, **content_fields)
        except TypeError as error:  # a field is missing or unknown
            raise Corrupt(f"{folder / NAME} is damaged: {error}") from error


def read(folder: Path) -> bytes:
    """The manifest's bytes; NoView if there are none."""
    try:
        return (folder / NAME).read_bytes()
    except FileNotFoundError as error:
        raise NoView(f"there is no view in {folder}") from error
