"""Data directories in this process, and a search engine over them as over the shards of a cluster.

There is neither Ray nor another process: all messages between router and shards are pickled and read again, so that
they share nothing else.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from index.catalog.catalog import Catalog
from index.records import PictureChange
from models.datasets.feature_collection import FeatureCollection, FeatureRecord
from models.matching.lazy_matcher import LazyMatcher
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut
from service.cluster.routing.sharded_gallery import ShardedGalleries
from service.cluster.shards.search import ShardSearch
from service.ingest.import_features import import_features
from service.model_loading import LoadedModels
from service.search.engine import SearchEngine
from service.search.local_gallery import LocalGalleries
from service.search.model_views import ModelView, ModelViews
from service.storage.data_dir import DataDir
from service.storage.regions.entries import region_store_entries
from service.storage.regions.records import RecordLayout
from service.storage.regions.stores import RegionStores
from service.worker.view_builder import ViewBuilders

DEADLINE_S = 600.0


@dataclass(frozen=True)
class Source:
    """A picture to take in."""

    image_id: str
    record: FeatureRecord
    collection: FeatureCollection
    added_at: float
    change: PictureChange
    """Its tags and date."""
    looks: bytes
    """Its perceptual hash."""


class LocalDirectory:
    """A data directory of the models that are loaded, filled with features."""

    def __init__(self, folder: Path, loaded: LoadedModels) -> None:
        self._folder, self._loaded = folder, loaded
        self._open = ExitStack()

    def take_in(self, sources: Sequence[Source]) -> None:
        """Store these pictures, and build the views of all models."""
        if sources:
            self._import(sources)
        data = DataDir(self._folder)
        self.catalog = self._open.enter_context(closing(Catalog(data.catalog)))
        for source in sources:
            self.catalog.change(source.image_id, source.change)
        self.catalog.hashes.add({source.image_id: source.looks for source in sources})
        extractor, matchers = self._loaded.extractor, self._loaded.matchers
        slab_folder = data.root / region_store_entries(self.catalog, extractor.digest)[0].folder
        with (
            closing(RecordLayout.of(extractor).open(slab_folder, write=True)) as slab,
            closing(ViewBuilders(matchers.values(), (), data.view, extractor)) as builders,
        ):
            while builders.catch_up(self.catalog, slab):
                pass
        regions = self._open.enter_context(closing(RegionStores(data, self.catalog, extractor)))
        views = [
            ModelView(name, model, data.view(model.header.digest), maintained=True)
            for name, model in self._loaded.models.items()
        ]
        models = self._open.enter_context(closing(ModelViews(views, self.catalog, regions)))
        models.refresh()
        self.galleries = LocalGalleries(self.catalog, regions, models, extractor)
        self.engine = SearchEngine(self.galleries, models, extractor)

    def _import(self, sources: Sequence[Source]) -> None:
        """Import one picture at a time, so that each has the same arrival time in every directory."""
        collection = replace(sources[0].collection, pictures=lambda: iter([source.record for source in sources]))
        arrivals = iter([source.added_at for source in sources])
        for outcome in import_features(
            collection, self._folder, lambda: self._loaded.extractor, inf, batch=1, clock=arrivals.__next__
        ):
            assert not outcome.rejected, outcome.rejected

    def __enter__(self) -> Self:
        """The directory, which `take_in` opens."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every file."""
        self._open.close()


class PickledReplica:
    """A replica that answers in a thread; questions and answers travel as bytes."""

    def __init__(self, name: str, search: ShardSearch) -> None:
        self.name, self._search = name, search
        self._threads = ThreadPoolExecutor(2, name)

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Begin a call."""
        return self._threads.submit(self._run, method, pickle.dumps(arguments))

    def _run(self, method: str, sent: bytes) -> Any:
        # Safe to unpickle: this process has just pickled it.
        return pickle.loads(pickle.dumps(getattr(self._search, method)(*pickle.loads(sent))))


class RouterModels:
    """The models as a router knows them: without views."""

    def __init__(self, models: Mapping[str, LazyMatcher], folder: Path) -> None:
        self._views = {name: ModelView(name, model, folder, maintained=True) for name, model in models.items()}

    @property
    def default(self) -> ModelView:
        """The first model."""
        return next(iter(self._views.values()))

    def named(self, name: str | None) -> ModelView:
        """The model of that name, the default for None."""
        return self.default if name is None else self._views[name]

    def __iter__(self) -> Iterator[ModelView]:
        return iter(self._views.values())


def sharded_engine(shards: Sequence[LocalDirectory], loaded: LoadedModels, round_trips: int = 2) -> SearchEngine:
    """A search engine over directories, each of which is a shard of one replica."""
    replicas = [
        [PickledReplica(f"shard-{number}", ShardSearch(shard.catalog, shard.galleries))]
        for number, shard in enumerate(shards)
    ]
    models = RouterModels(loaded.models, Path("nowhere"))
    galleries = ShardedGalleries(
        FanOut(replicas, DEADLINE_S), models, loaded.extractor.digest, lambda: Placement(len(shards)), round_trips
    )
    return SearchEngine(galleries, models, loaded.extractor)
