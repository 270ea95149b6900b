"""A data directory with synthetic pictures: random regions, with views built by a worker.

The cost of a search depends on the number of pictures and the size of their records, not on what they show.
"""

import random
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from index.catalog.catalog import Catalog
from models.datasets.feature_collection import FeatureCollection, FeatureRecord
from models.extractors.base import REGION, Extractor
from service.ingest.import_features import import_features
from service.model_loading import LoadedModels
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.worker.process import open_worker

WORDS = (
    *("a", "the", "two", "brown", "red", "small", "old", "young", "dog", "man", "woman", "girl", "boy", "people"),
    *("ball", "bicycle", "street", "beach", "water", "grass", "snow", "mountain", "car", "guitar", "horse", "field"),
    *("runs", "jumps", "sits", "stands", "plays", "holds", "wears", "looks", "rides", "in", "on", "with", "near"),
)
FEWEST, MOST = 6, 18  # words of a sentence: captions have 12 on average


def random_pictures(extractor: Extractor, first: int, count: int) -> Iterator[FeatureRecord]:
    """Pictures with the extractor's number of regions and features uniform in 0..1, determined by their numbers."""
    for number in range(first, first + count):
        generator = np.random.default_rng(number)
        features = generator.random((extractor.num_regions, extractor.feature_dim), np.float32)
        corners = np.sort(generator.random((extractor.num_regions, 2, 2), np.float32), axis=1)
        yield FeatureRecord(
            name=f"synthetic-{number}.jpg",
            features=features.astype(np.float16),
            boxes=(640 * corners.reshape(-1, 4)),
            labels=(REGION,) * extractor.num_regions,
            confidence=generator.random(extractor.num_regions, np.float32),
            size=(640, 640),
        )


def num_pictures(settings: Settings) -> int:
    """The number of pictures with regions in the data directory."""
    with closing(Catalog(DataDir(settings.data_dir).catalog)) as catalog:
        return catalog.num_slots()


def fill_with_pictures(settings: Settings, loaded: LoadedModels, pictures: int) -> int:
    """Add pictures until there are `pictures`, and build the models' views. Returns the number of pictures."""
    present = num_pictures(settings)
    if present < pictures:
        extractor = loaded.extractor
        collection = FeatureCollection(
            extractor=extractor.digest,
            num_regions=extractor.num_regions,
            feature_dim=extractor.feature_dim,
            labels=(REGION,),
            pictures=lambda: random_pictures(extractor, present, pictures - present),
        )
        for batch in import_features(collection, settings.data_dir, lambda: extractor, settings.delete_grace_s):
            if batch.rejected:
                raise ValueError(f"a synthetic picture is refused: {batch.rejected[0].problem}")
    with open_worker(settings, loaded.extractor, loaded.in_views()) as (worker, _):
        while worker.run_once():
            pass
    return num_pictures(settings)


def random_sentences(seed: int) -> Iterator[str]:
    """An endless sequence of sentences with hardly any repetition, so that no cache answers."""
    generator = random.Random(seed)
    while True:
        yield " ".join(generator.choices(WORDS, k=generator.randint(FEWEST, MOST)))
