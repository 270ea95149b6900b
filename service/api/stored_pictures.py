"""The stored pictures as routes read and change them, wherever they lie."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Protocol

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from index.catalog.ingestion.failures import FailureKey
from index.records import Failure, Image, ImageOrder, ListPlace, PictureChange, TagUse
from service.search.model_views import ModelView, ModelViews, ViewState
from service.storage.ballast import release_ballast
from service.storage.disk import is_disk_full


class StoredPictures(Protocol):
    """The pictures of one data directory, or of many."""

    def collection_id(self) -> str | None:
        """The id of the collection, which a restored snapshot has another one of; None for that of a cluster."""

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state; None when never seen, or erased."""

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after the place. Raises UnknownPlace where there is no such picture."""

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        """The numbers of pictures that pass the filter, by their states."""

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        """The tags of visible pictures, see Catalog.tags."""

    def failure(self, image_id: str) -> Failure | None:
        """Why a picture was set aside, or has no regions; None where it was not."""

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        """Pictures set aside, those that came last first, after a place in their list."""

    def retry(self, image_id: str, now: float) -> str | None:
        """Try a picture that was set aside again; the job's id, None where it was not."""

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture; False when there is no such picture, or it is deleted already."""

    def restore(self, image_id: str, kept_since: float) -> Image | None:
        """The picture, whose deletion is undone if there is one, not older than `kept_since`; None where there is no
        picture."""

    def change(self, image_id: str, change: PictureChange) -> Image | None:
        """The picture after a change of its description; None where there is none, or it is deleted. Raises TooMuchSaid
        where it would have too many captions or tags."""

    def counts(self) -> Mapping[str, int]:
        """The numbers of pictures that are "ready", "queued", "failed", "deleted"."""

    def view_states(self) -> Sequence[tuple[ModelView, ViewState]]:
        """The models, and how much of the pictures each can search."""

    def build_view(self, model: ModelView, now: float) -> ViewState:
        """Have a model's view built and kept up from now on; how far it is."""


class LocalPictures(StoredPictures):
    """The pictures of one data directory."""

    def __init__(self, catalog: Catalog, models: ModelViews) -> None:
        self._catalog, self._models = catalog, models

    def collection_id(self) -> str | None:
        return self._catalog.collection().id

    def image(self, image_id: str) -> Image | None:
        return self._catalog.image(image_id)

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        return self._catalog.list_images(after, limit, condition, order)

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        return self._catalog.count_listed(condition)

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        return self._catalog.tags(most_names, most_values, containing, after)

    def failure(self, image_id: str) -> Failure | None:
        return self._catalog.failures.find(image_id)

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        return self._catalog.failures.page(after, limit)

    def retry(self, image_id: str, now: float) -> str | None:
        return self._catalog.queue.retry(image_id, now)

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture; False when there is no such picture, or it is deleted already.

        A full disk does not keep it from being deleted, as long as there is ballast.
        """
        try:
            return self._catalog.delete(image_id, now)
        except sqlite3.OperationalError as fault:
            if not is_disk_full(fault) or not release_ballast(self._catalog.folder):
                raise
            return self._catalog.delete(image_id, now)

    def restore(self, image_id: str, kept_since: float) -> Image | None:
        return self._catalog.restore(image_id, kept_since)

    def change(self, image_id: str, change: PictureChange) -> Image | None:
        return self._catalog.change(image_id, change)

    def counts(self) -> Mapping[str, int]:
        return self._catalog.counts()

    def view_states(self) -> Sequence[tuple[ModelView, ViewState]]:
        for model in self._models:
            model.refresh()
        return [(model, model.state(self._catalog)) for model in self._models]

    def build_view(self, model: ModelView, now: float) -> ViewState:
        """Have a worker build a model's view and keep it up from now on; how far it is."""
        self._models.request_build(model, now)
        return model.state(self._catalog)
