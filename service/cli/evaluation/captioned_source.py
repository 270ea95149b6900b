"""Captioned pictures that options name: checked before PyTorch is imported, then loaded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from models.datasets.captions import CaptionLine, captioned_photographs, half_slices, read_captions
from service.cli.terminal.output import print_note, visible
from service.errors import UserError, user_input

if TYPE_CHECKING:
    import numpy as np

    from models.datasets.captioned_features import CaptionedFeatures
    from models.matching.matcher import Matcher


PRECOMP_SPLIT = "test"  # of --precomp, if none is given
FEW_PICTURES = 50  # the least that calibrations need
PUBLISHED = "bottom-up-36"  # the extractor of --precomp, unless --extractor names another
FIRST_REGIONS = re.compile(r"(.+)-first-(\d+)")  # as `CaptionedFeatures.first_regions` names them


@dataclass(frozen=True)
class Selection:
    """The pictures of a captions file, and the regions of their features, that a command uses."""

    split: str | None = None
    gallery: tuple[str, ...] = ()
    """Splits whose pictures are searched as well, without their captions."""
    part: str | None = None
    """The "first" or the "second" half of the split's pictures; None for both."""
    first: int | None = None
    """The number of first pictures of the split or its half; None for all."""
    regions: int | None = None
    """The number of first regions of each picture; None for all."""

    def pictures(self, num: int) -> slice:
        """The part of a split's `num` pictures."""
        return half_slices(num)[self.part] if self.part else slice(num)

    def lines(self, captions: Path) -> list[CaptionLine]:
        """The pictures with captions, then the others of the gallery. UserError names a bad line."""
        with user_input(captions):
            split = read_captions(captions, self.split)
            lines = split[self.pictures(len(split))][: self.first]
            others = [line for split in self.gallery for line in read_captions(captions, split)]
        names = {line.image for line in lines}
        return lines + [replace(line, captions=()) for line in others if line.image not in names]


@dataclass(frozen=True)
class CaptionedSource:
    """A source of captioned pictures: a folder in SCAN's layout, or a captions file with features or photographs."""

    precomp: Path | None
    captions: Path | None
    features: Path | None
    images: Path | None = None
    extractor: str | None = None
    """The name of the extractor of features in SCAN's layout; None for that of the published ones."""

    def as_options(self, selection: Selection) -> list[str]:
        """The options that name this source and a split of it on the command line."""
        given = {
            "--precomp": self.precomp,
            "--features": self.features,
            "--captions": self.captions,
            "--extractor": self.extractor,
            "--split": selection.split,
            "--regions": selection.regions,
        }
        return [word for name, value in given.items() if value is not None for word in (name, str(value))]

    def check(self, selection: Selection, all_captioned: bool = False) -> None:
        """UserError where something is missing or a line of the captions is invalid. Imports nothing heavy.

        With `all_captioned` every picture must have a caption, otherwise at least one.
        """
        if self.precomp is not None:
            _check_files(self.precomp, [f"{_precomp_split(selection)}_{part}" for part in ("ims.npy", "caps.txt")])
            return
        assert self.captions is not None
        lines = selection.lines(self.captions)
        if all_captioned and (name := next((line.image for line in lines if not line.captions), None)):
            raise UserError(f"{self.captions}: {name} has no caption")
        if not any(line.captions for line in lines):
            raise UserError(f"{self.captions}: none of the selected pictures has a caption")
        if self.features is not None:
            _check_files(self.features, ["manifest.json", "ids.txt"])
        else:
            assert self.images is not None
            self.photographs(lines)

    def photographs(self, lines: Sequence[CaptionLine]) -> dict[str, Path]:
        """Name -> file of the pictures, where there is a folder of them. UserError names a missing one."""
        assert self.images is not None
        with user_input():
            return captioned_photographs(self.images, lines)

    def load(self, selection: Selection) -> "CaptionedFeatures":
        """The features of the selected pictures with their captions. Raises UserError where they cannot be read."""
        from models.datasets.captioned_features import CaptionedFeatures
        from models.datasets.feature_store import open_features
        from models.datasets.scan_precomp import read_precomp

        with user_input(self.precomp or self.features):
            if self.precomp is not None:
                data = read_precomp(self.precomp, _precomp_split(selection), self.extractor or PUBLISHED)
                data = data.pictures(selection.pictures(len(data)))
                data = data.first(selection.first) if selection.first else data
            else:
                assert self.features is not None
                assert self.captions is not None
                data = CaptionedFeatures.join(open_features(self.features), selection.lines(self.captions))
            return data.first_regions(selection.regions) if selection.regions else data


def require_source(
    precomp: Path | None, captions: Path | None, features: Path | None, extractor: str | None = None
) -> CaptionedSource:
    """The source that the options of a command without photographs name; typer.BadParameter where they name none."""
    if precomp is None and (features is None or captions is None):
        raise typer.BadParameter("give --features, from `regard extract`, with --captions; or --precomp")
    refuse_beside_precomp(precomp, captions, features, extractor=extractor)
    return CaptionedSource(precomp, captions, features, extractor=extractor)


def refuse_beside_precomp(precomp: Path | None, *others: Path | None, extractor: str | None = None) -> None:
    """typer.BadParameter where --precomp, which holds features and captions, is given with another source, or
    --extractor without it."""
    if precomp is None and extractor is not None:
        raise typer.BadParameter("--extractor goes with --precomp: other features name their extractor")
    if precomp is not None and any(other is not None for other in others):
        raise typer.BadParameter("--precomp holds features and captions: leave --features, --captions and --images out")


def load_fitting(source: CaptionedSource, split: str | None, matcher: "Matcher", name: object) -> "CaptionedFeatures":
    """The features of a split. UserError unless they are finite and fit the model, called `name`."""
    data = source.load(Selection(split))
    check_fits(matcher, data, name)
    check_finite(data)
    return data


def check_fits(matcher: "Matcher", data: "CaptionedFeatures", name: object, regions: int | None = None) -> None:
    """UserError unless the model, called `name`, was trained on features of the same detector.

    Features reduced to the first `regions` fit models of as many regions and models of all regions.
    """
    check_reads(matcher, data.extractor_digest, data.feature_dim, name, regions)


def check_finite(
    data: "CaptionedFeatures", pictures: "slice | np.ndarray" = slice(None), split: str | None = None
) -> None:
    """Raises UserError, which names the pictures, where features are not finite."""
    if bad := data.not_finite(pictures):
        where = f"split {split}: " if split else ""
        raise UserError(f"{where}{bad}: extract them again, or take them out of the captions")


def note_few(data: "CaptionedFeatures") -> None:
    """Print a note that recalls are meaningless if too few pictures have captions."""
    if (captioned := sum(map(bool, data.captions))) < FEW_PICTURES:
        print_note(f"recalls on so few pictures ({captioned}) are meaningless: use at least {FEW_PICTURES}")


def note_splits(lines: Sequence[CaptionLine]) -> None:
    """Print a note that pictures of several splits, such as those learnt from, are measured together."""
    splits = sorted({line.split or "none" for line in lines})
    if len(splits) > 1:
        print_note(f"no --split: pictures of all splits are measured together ({', '.join(map(visible, splits))})")


def check_reads(matcher: "Matcher", extractor: str, width: int, name: object, regions: int | None = None) -> None:
    """UserError unless the model reads features of `width` numbers from the detector `extractor`, as `check_fits`."""
    if matcher.extractor_digest not in (extractor, extractor.removesuffix(f"-first-{regions}")):
        reduced = FIRST_REGIONS.fullmatch(matcher.extractor_digest)
        if reduced is not None and reduced[1] == extractor:
            raise UserError(f"{name} was trained on the first regions alone: give --regions {reduced[2]}")
        advice = f": give --extractor {matcher.extractor_digest} if it made --precomp" if extractor == PUBLISHED else ""
        raise UserError(
            f"{name} reads features of detector {matcher.extractor_digest}, these are of {extractor}{advice}"
        )
    if width != matcher.feature_dim:
        raise UserError(f"{name} reads features of {matcher.feature_dim} numbers, these have {width}")


def _precomp_split(selection: Selection) -> str:
    return selection.split or PRECOMP_SPLIT


def _check_files(folder: Path, names: Sequence[str]) -> None:
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder} holds no {' and no '.join(missing)}")
