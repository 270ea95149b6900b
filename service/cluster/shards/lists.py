"""A shard's part of lists, and reads of single pictures."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from index.catalog.catalog import Catalog
from index.catalog.filters import EVERY, Filter
from index.catalog.ingestion.failures import FailureKey
from index.catalog.ingestion.jobs import JobKey
from index.catalog.list_orders import PageKey, page_key
from index.records import Failure, Image, ImageOrder, JobStatus, TagUse
from service.api.job_progress import JobStates
from service.api.stored_pictures import StoredPictures
from service.cluster.operations import has_picture
from service.cluster.placement import shard_of
from service.search.model_views import ViewState
from service.storage.originals import Originals

LOOKED_AT = 1000  # pictures read at a time


class ShardLists:
    """One shard's part of the lists of a collection. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        originals: Originals,
        pictures: StoredPictures,
        progress: JobStates,
        regions_of: Callable[[str], bytes | None] = lambda image_id: None,
    ) -> None:
        """`regions_of` serializes the stored regions of a picture."""
        self._catalog, self._originals, self._pictures, self._progress = catalog, originals, pictures, progress
        self._regions_of = regions_of

    def page(self, after: PageKey | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after a position in the list."""
        return self._catalog.identities.page(after, limit, condition, order)

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        """The numbers of pictures that pass the filter, by state."""
        return self._catalog.count_listed(condition)

    def requested_views(self) -> set[str]:
        """Digests of the models whose views were requested, besides those that settings name."""
        return self._catalog.processes.requested_views()

    def misplaced(
        self, shard: int, num_shards: int, limit: int, after: PageKey | None = None
    ) -> tuple[dict[int, list[Image]], PageKey | None]:
        """Pictures after a position that belong to another shard than this one of `num_shards`, by that shard; and the
        position to continue from, None at the end."""
        by_home = defaultdict[int, list[Image]](list)
        while images := self._catalog.identities.page(after, LOOKED_AT, EVERY, "arrival"):
            for image in images:
                after = page_key(image, "arrival")
                if (home := shard_of(image.image_id, num_shards)) != shard:
                    by_home[home].append(image)
                    if sum(map(len, by_home.values())) == limit:
                        return dict(by_home), after
            if by_home:
                return dict(by_home), after
        return {}, None

    def original(self, image: Image) -> bytes | None:
        """The bytes of a picture; None where they are missing, or their number is another: another replica may have
        them."""
        if self._originals.lacks(image.image_id, image.extension, image.num_bytes):
            return None
        return self._originals.path(image.image_id, image.extension).read_bytes()

    def serialised_regions(self, image_id: str) -> bytes | None:
        """The serialized regions of a picture, to be sent with it; None where they are not found yet."""
        return self._regions_of(image_id)

    def known_images(self, image_ids: Sequence[str]) -> dict[str, Image]:
        """Id -> picture, of those among these that this shard has, in any state."""
        images = {image_id: self._pictures.image(image_id) for image_id in image_ids}
        return {image_id: image for image_id, image in images.items() if has_picture(image)}

    def held(self, image_ids: Sequence[str]) -> list[str]:
        """The ids among these whose pictures this shard has, deleted or not, and has not released."""
        return [image_id for image_id in image_ids if has_picture(self._pictures.image(image_id))]

    def image(self, image_id: str) -> Image | None:
        """A picture in any state; None where it was never stored, or is erased."""
        return self._pictures.image(image_id)

    def decided_fields(self, image_id: str) -> list[str]:
        """The fields of a picture without regions that ignore its file's own metadata."""
        return self._catalog.decided_fields(image_id)

    def months(self) -> Mapping[str, int]:
        """The numbers of visible pictures by month, see Catalog.months."""
        return self._catalog.months()

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        """Tags in use, see Catalog.tags."""
        return self._pictures.tags(most_names, most_values, containing, after)

    def failure(self, image_id: str) -> Failure | None:
        """The reason why a picture was set aside, or has no regions; None where it was not."""
        return self._pictures.failure(image_id)

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        """Pictures set aside, the latest first, after a position in their list."""
        return self._pictures.failures(after, limit)

    def job(self, job_id: str) -> JobStatus | None:
        """This shard's part of a job."""
        return self._progress.job(job_id)

    def job_is_found(self, job_id: str) -> bool:
        """Whether every model with a view finds the pictures of this shard's part of a job."""
        job = self._progress.job(job_id)
        if job is None or job.state != "done":
            return False
        views = [model.snapshot() for model, state in self._pictures.view_states() if state.state != "not built"]
        return all(view is not None and view.counts.images >= job.picture_slots for view in views)

    def jobs(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """This shard's parts of jobs, the latest first, after a position in their list."""
        return self._progress.jobs(after, limit)

    def view_states(self) -> dict[str, ViewState]:
        """The state of each model's view of this shard, by the model's digest."""
        return {model.header.digest: state for model, state in self._pictures.view_states()}

    def counts(self) -> Mapping[str, int]:
        """Pictures by state."""
        return self._pictures.counts()
