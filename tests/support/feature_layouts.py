"""Features as others lay them out, made of pictures in two colours, which FakeMatcher finds by their words; and a data
directory that took them in."""

import json
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from index.catalog.catalog import Catalog
from models.datasets.feature_collection import FeatureCollection, open_collection
from service.ingest.import_features import ImportedBatch, import_features
from service.model_loading import LoadedModels, extractor_of
from service.settings import Settings
from service.worker.process import open_worker
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import two_coloured

THEIRS = "their-features"
PAIRS = [("red", "green"), ("blue", "blue"), ("yellow", "white"), ("black", "cyan"), ("magenta", "magenta")]


def arrays(pairs: Sequence[tuple[str, str]] = PAIRS) -> np.ndarray:
    """[K R D] float32, as an extractor of four regions gives them."""
    return FakeExtractor().extract([two_coloured(*pair) for pair in pairs]).features.numpy()


def scan_layout(folder: Path, features: np.ndarray, split: str = "test", ids: bool = True) -> Path:
    """A folder in SCAN's layout; row n has the captions `n 0` to `n 4`."""
    folder.mkdir(exist_ok=True)
    np.save(folder / f"{split}_ims.npy", features)
    (folder / f"{split}_caps.txt").write_text("".join(f"{row} {n}\n" for row in range(len(features)) for n in range(5)))
    if ids:
        (folder / f"{split}_ids.txt").write_text("".join(f"{100 + row}\n" for row in range(len(features))))
    return folder


def jsonl(path: Path, captions: dict[str, list[str]]) -> Path:
    """A captions file."""
    lines = [json.dumps({"image": name, "captions": texts}) for name, texts in captions.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def take_in(collection: FeatureCollection, data: Path, batch: int = 2) -> list[ImportedBatch]:
    """Import a collection. Returns the outcome of each batch."""
    return list(import_features(collection, data, FakeExtractor, inf, batch))


def totals(taken: list[ImportedBatch]) -> tuple[int, int, int]:
    """The numbers of accepted, already stored and rejected pictures."""
    return (
        sum(one.accepted for one in taken),
        sum(one.duplicates for one in taken),
        sum(len(one.rejected) for one in taken),
    )


def theirs(folder: Path) -> FeatureCollection:
    """The pictures of PAIRS in SCAN's layout."""
    return open_collection([scan_layout(folder / "precomp", arrays())], extractor=THEIRS)


def built(data: Path, matcher: Any = None) -> LoadedModels:
    """The extractor and matcher of a data directory, once a worker has built the view."""
    extractor = extractor_of(None, data, "cpu")
    matcher = matcher or FakeMatcher(extractor_digest=THEIRS)
    with open_worker(Settings(data_dir=data, decode_workers=1), extractor, [matcher]) as (worker, _):
        while worker.run_once():
            pass
    return LoadedModels.of(extractor, {matcher.name: matcher}, views=[matcher.name])


def state(data: Path) -> list[tuple[Any, ...]]:
    """Everything that a catalog stores about its pictures, except times."""
    catalog = Catalog(data / "catalog.sqlite")
    found = [
        (one.image_id, one.filename, one.slot, one.width, one.extractor, one.state, one.captions)
        for one in catalog.list_images(None, 1000)
    ]
    catalog.close()
    return found
