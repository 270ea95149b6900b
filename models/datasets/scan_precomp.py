"""Features and captions in SCAN's layout: a folder with `{split}_ims.npy`, `{split}_caps.txt` and `{split}_ids.txt`."""

from pathlib import Path

import numpy as np

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_lines
from models.datasets.npy_files import open_regions

# The extractor's name for SCAN's arrays and the TSVs of 36 boxes: bottom-up attention (Anderson et al., 2018).
PUBLISHED_FEATURES = "bottom-up-36"

CAPTIONS_PER_IMAGE = 5
DEV_CAPTIONS = 5000  # only the first ones of the `dev` split are used


def read_precomp(folder: Path, split: str, extractor: str = PUBLISHED_FEATURES) -> CaptionedFeatures:
    """A split of a folder in SCAN's layout; captions 5i..5i+4 belong to row i of the array, which is memory-mapped.

    With as many rows as captions, every row has one caption, unless each row is stored five times: then five rows
    are one picture with five captions. Of `dev` the first 5000 captions are used. Raises ValueError if the numbers of
    rows and captions fit neither way.
    """
    features = open_regions(folder / f"{split}_ims.npy")
    captions = read_lines(folder / f"{split}_caps.txt")
    num_captions, step = _pairing(features, len(captions), folder / split)
    if split == "dev":
        captions = captions[:DEV_CAPTIONS]
    groups = [captions[start : start + num_captions] for start in range(0, len(captions), num_captions)]
    mask = np.ones(features.shape[:2], dtype=bool)
    return CaptionedFeatures(features, mask, groups, extractor, np.arange(len(groups)) * step)


def read_precomp_ids(folder: Path, split: str) -> tuple[str, ...]:
    """The names of the pictures of `read_precomp`, from `{split}_ids.txt`, which has a line for each row."""
    data = read_precomp(folder, split)
    ids = read_lines(folder / f"{split}_ids.txt", "an id")
    if len(ids) != len(data.features):
        raise ValueError(f"{folder / split}: {len(ids)} ids for {len(data.features)} rows of features")
    return tuple(ids[row] for row in data.rows)


def _pairing(features: np.ndarray, num_captions: int, name: Path) -> tuple[int, int]:
    """The numbers of captions and of rows per picture."""
    if num_captions == CAPTIONS_PER_IMAGE * len(features):
        return CAPTIONS_PER_IMAGE, 1
    if num_captions == len(features):
        return (CAPTIONS_PER_IMAGE, CAPTIONS_PER_IMAGE) if _stored_five_times(features) else (1, 1)
    raise ValueError(f"{name}: {num_captions} captions are neither one nor five for each of {len(features)} rows")


def _stored_five_times(features: np.ndarray) -> bool:
    """Whether all rows 5i..5i+4 are copies, judged by their first region."""
    if len(features) % CAPTIONS_PER_IMAGE:
        return False
    rows = range(0, len(features), CAPTIONS_PER_IMAGE)
    return all((features[row : row + CAPTIONS_PER_IMAGE, 0] == features[row, 0]).all() for row in rows)
