"""The stored pictures as routes read and change them, wherever they are stored."""

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
    """The pictures of one data directory, or of a cluster."""

    def collection_id(self) -> str | None:
        """The id of the collection, which changes when a snapshot is restored; None for a cluster."""

    def image(self, image_id: str) -> Image | None:
        """A picture in any state; None where it was never stored, or is erased."""

    def images(self, image_ids: Sequence[str]) -> Mapping[str, Image]:
        """Id -> picture in any state, of those among these that are stored, and not erased."""

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after a position. Raises UnknownPlace where its picture does not exist."""

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        """The numbers of pictures that pass the filter, by state."""

    def months(self) -> Mapping[str, int]:
        """The numbers of visible pictures by the month they were taken in, see Catalog.months."""

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        """The tags of visible pictures, see Catalog.tags."""

    def failure(self, image_id: str) -> Failure | None:
        """The reason why a picture was set aside, or has no regions; None where it was not."""

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        """Pictures set aside, the latest first, after a position in their list."""

    def retry(self, image_id: str, now: float) -> str | None:
        """Retry a picture that was set aside. Returns the job's id, None where it was not set aside."""

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture. Returns False where it does not exist, or is already deleted."""

    def restore(self, image_id: str, kept_since: float) -> Image | None:
        """The picture, restored if it was deleted not before `kept_since`; None where it does not exist."""

    def change(self, image_id: str, change: PictureChange) -> Image | None:
        """The picture after a change of its description; None where it does not exist, or is deleted. Raises
        OversizedDescription where it would have too many captions or tags."""

    def counts(self) -> Mapping[str, int]:
        """The numbers of pictures in the states "ready", "queued", "failed" and "deleted"."""

    def view_states(self) -> Sequence[tuple[ModelView, ViewState]]:
        """The models, each with the part of the pictures that it can search."""

    def build_view(self, model: ModelView, now: float) -> ViewState:
        """Have a model's view built and maintained from now on. Returns its state."""


class LocalPictures(StoredPictures):
    """The pictures of one data directory."""

    def __init__(self, catalog: Catalog, models: ModelViews) -> None:
        self._catalog, self._models = catalog, models

    def collection_id(self) -> str | None:
        return self._catalog.collection().id

    def image(self, image_id: str) -> Image | None:
        return self._catalog.image(image_id)

    def images(self, image_ids: Sequence[str]) -> Mapping[str, Image]:
        found = ((image_id, self._catalog.image(image_id)) for image_id in image_ids)
        return {image_id: image for image_id, image in found if image is not None}

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        return self._catalog.list_images(after, limit, condition, order)

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        return self._catalog.count_listed(condition)

    def months(self) -> Mapping[str, int]:
        return self._catalog.months()

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        return self._catalog.tags(most_names, most_values, containing, after)

    def failure(self, image_id: str) -> Failure | None:
        return self._catalog.failures.find(image_id)

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        return self._catalog.failures.page(after, limit)

    def retry(self, image_id: str, now: float) -> str | None:
        return self._catalog.queue.retry(image_id, now)

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture. Returns False where it does not exist, or is already deleted.

        Where the disk is full, the ballast file is released to make room for the change.
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
        """Have a worker build and maintain a model's view from now on. Returns its state."""
        self._models.request_build(model, now)
        return model.state(self._catalog)
