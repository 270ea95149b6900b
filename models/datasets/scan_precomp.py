"""Captioned pictures as others lay them out: SCAN's arrays, and a plain folder of photographs."""

from pathlib import Path

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_pictures

__all__ = ["PUBLISHED_FEATURES", "read_lines", "read_pictures", "read_precomp", "read_precomp_ids"]

# What extracted SCAN's arrays and the TSVs of 36 boxes: bottom-up attention's ResNet-101 (Anderson et al., 2018).
PUBLISHED_FEATURES = "bottom-up-36"

CAPTIONS_AN_IMAGE = 5
DEV_CAPTIONS = 5000  # as many of the `dev` split are used, however long it is


def read_lines(path: Path) -> list[str]:
    """A caption a line, as the authors' loaders split them: at line feeds alone, white space around taken off."""
    lines = path.read_bytes().decode("utf-8").split("\n")
    if not lines[-1]:
        lines.pop()
    blank = [number for number, line in enumerate(lines, 1) if not line.strip()]
    if blank:
        raise ValueError(f"{path}:{blank[0]}: an empty line, where every line is a caption")
    if not lines:
        raise ValueError(f"{path} is empty, where every line is a caption")
    return [line.strip() for line in lines]


def read_precomp(folder: Path, split: str, extractor: str = PUBLISHED_FEATURES) -> CaptionedFeatures:
    """SCAN's `{split}_ims.npy` (memory-mapped) and `{split}_caps.txt`, whose captions 5i..5i+4 belong to row i.

    With as many rows as captions, every row has its own; five times the same row is then one picture again. Of
    `dev` the first 5000 captions are used. ValueError where the numbers of rows and captions fit neither way.
    """
    features = np.load(folder / f"{split}_ims.npy", mmap_mode="r")
    captions = read_lines(folder / f"{split}_caps.txt")
    each, step = _pairing(features, len(captions), folder / split)
    if split == "dev":
        captions = captions[:DEV_CAPTIONS]
    groups = [captions[start : start + each] for start in range(0, len(captions), each)]
    mask = np.ones(features.shape[:2], dtype=bool)
    return CaptionedFeatures(features, mask, groups, extractor, np.arange(len(groups)) * step)


def read_precomp_ids(folder: Path, split: str) -> tuple[str, ...]:
    """The names of `read_precomp`'s pictures, from `{split}_ids.txt` (a line a row of the arrays)."""
    data = read_precomp(folder, split)
    ids = read_lines(folder / f"{split}_ids.txt")
    if len(ids) != len(data.features):
        raise ValueError(f"{folder / split}: {len(ids)} ids for {len(data.features)} rows of features")
    return tuple(ids[row] for row in data.rows)


def _pairing(features: np.ndarray, num_captions: int, name: Path) -> tuple[int, int]:
    """Captions of a picture, and rows from one picture to the next."""
    if features.ndim != 3:
        raise ValueError(f"{name}_ims.npy has shape {features.shape}, not (pictures, regions, numbers)")
    if num_captions == CAPTIONS_AN_IMAGE * len(features):
        return CAPTIONS_AN_IMAGE, 1
    if num_captions == len(features):
        return (CAPTIONS_AN_IMAGE, CAPTIONS_AN_IMAGE) if _stored_five_times(features) else (1, 1)
    raise ValueError(f"{name}: {num_captions} captions are neither one nor five for each of {len(features)} rows")


def _stored_five_times(features: np.ndarray) -> bool:
    """Whether rows 5i..5i+4 are the same picture throughout, seen by their first region."""
    if len(features) % CAPTIONS_AN_IMAGE:
        return False
    rows = range(0, len(features), CAPTIONS_AN_IMAGE)
    return all((features[row : row + CAPTIONS_AN_IMAGE, 0] == features[row, 0]).all() for row in rows)
