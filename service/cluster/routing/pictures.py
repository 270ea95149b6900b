"""The pictures of a whole cluster as routes see them: read from the shards, changed through their writers."""

import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from typing import IO, Any, TypeVar, TypeVarTuple

from index.catalog.filters import Filter
from index.catalog.ingestion.failures import FailureKey, failure_key
from index.catalog.list_orders import PageKey, UnknownPlace, key_of, page_key
from index.records import (
    UNCHANGED,
    Failure,
    Image,
    ImageOrder,
    ListPlace,
    PictureChange,
    TagUse,
    TagValue,
)
from service.cluster.operations import BuildView, Delete, Edit, Operation, Restore, Retry
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import READ_DEADLINE_S, FanOut, all_answers, every_shard
from service.cluster.routing.picture_homes import (
    PictureHomes,
    ShardWriters,
    known_in_shards,
    picture_in_shards,
    until_settled,
)
from service.cluster.shards.lists import ShardLists
from service.search.model_views import ModelView, ModelViews, ViewState

MOST_VALUES = 10_000  # read of a tag from one shard; up to there, counts are exact
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ClusterPictures:
    """Reads and changes pictures in their shards."""

    def __init__(
        self, fan_out: FanOut, writers: ShardWriters, placement: Callable[[], Placement], models: ModelViews
    ) -> None:
        """`placement` returns the current placement."""
        self._fan_out, self._writers, self._placement, self._models = fan_out, writers, placement, models
        self._homes = PictureHomes(fan_out, placement)

    # -- one picture

    def image(self, image_id: str) -> Image | None:
        """A picture in any state; None where it was never stored, or is erased."""
        return picture_in_shards(self._fan_out, self._placement(), image_id)

    def images(self, image_ids: Sequence[str]) -> Mapping[str, Image]:
        """Id -> picture in any state, of those among these that a shard has. Raises ShardLost as `image`."""
        placement, asked = self._placement(), defaultdict[int, list[str]](list)
        for image_id in image_ids:
            for shard in placement.places(image_id):
                asked[shard].append(image_id)
        calls = {shard: (ids,) for shard, ids in asked.items()}
        known = all_answers(self._fan_out, ShardLists.known_images, calls, deadline_s=READ_DEADLINE_S)
        found = ((one, shard) for one in image_ids for shard in placement.places(one) if one in known[shard])
        return {image_id: known[shard][image_id] for image_id, shard in found}  # the old shard comes last, and counts

    def missing(self, images: Iterable[Image]) -> list[str]:
        """None: whether an original is there, only its shard can say, when it is read."""
        return []

    def open(self, image: Image) -> IO[bytes]:
        """A picture's original. Raises FileNotFoundError where its shard lacks it, ShardLost where that does not
        answer."""
        shard = self._homes.home(image.image_id)
        call = {shard: (image,)}
        content = all_answers(self._fan_out, ShardLists.original, call, deadline_s=READ_DEADLINE_S)[shard]
        if content is None:  # perhaps on this replica only
            others = self._fan_out.ask_every(ShardLists.original, call, READ_DEADLINE_S)[shard]
            content = next((one for one in others if one is not None), None)
        if content is None:
            raise FileNotFoundError(f"the original of picture {image.image_id} is missing on shard {shard}")
        return BytesIO(content)

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture. Returns False where it does not exist, or is already deleted."""
        places = self._homes.places(image_id)[::-1]
        deleted = [self._writers.write(shard, Delete(image_id=image_id, now=now)) for shard in places]
        return any(deleted)

    def restore(self, image_id: str, kept_since: float) -> Image | None:
        """The picture, restored if it was deleted not before `kept_since`; None where it does not exist."""
        outcome: Image | None = self._write_at_home(image_id, Restore(image_id=image_id, kept_since=kept_since))
        return outcome or self.image(image_id)  # None where all replicas had made the change before

    def change(self, image_id: str, change: PictureChange) -> Image | None:
        """The picture after a change of its description; None where it does not exist, or is deleted. Raises
        OversizedDescription where it would have too many captions or tags."""
        changes = {name: value for name, value in vars(change).items() if value is not UNCHANGED}
        changed: Image | None = self._write_at_home(image_id, Edit(image_id=image_id, changes=changes))
        return changed

    def retry(self, image_id: str, now: float) -> str | None:
        """Retry a picture that was set aside. Returns the job's id, None where it was not set aside."""
        retry = Retry(image_id=image_id, job_id=uuid.uuid4().hex, now=now)
        job_id = self._write_at_home(image_id, retry)
        return None if job_id is None else str(job_id)

    def _write_at_home(self, image_id: str, operation: Operation) -> Any:
        """Have the home shard of a picture make a change, also where the picture moves meanwhile."""
        return until_settled(lambda: self._writers.write(self._homes.home(image_id), operation))

    # -- all pictures

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after a position. Raises UnknownPlace where its picture does not exist."""
        key = None if after is None else self._key(after, order)
        parts = self._ask_all(ShardLists.page, key, limit, condition, order)
        # An added shard comes last, so that its copy of a picture counts only once no other shard has the picture.
        images = {image.image_id: image for part in reversed(parts) for image in part}
        return sorted(images.values(), key=lambda image: page_key(image, order))[:limit]

    def count_listed(self, condition: Filter) -> Mapping[str, int]:
        """The numbers of pictures that pass the filter, by state; a picture being moved may count twice."""
        return added_up(self._ask_all(ShardLists.count_listed, condition))

    def _key(self, after: ListPlace, order: ImageOrder) -> PageKey:
        last, taken_at = self.image(after.image_id), after.taken_at
        added_at = after.added_at  # as listed, since the picture may have been erased and sent again
        if added_at is None and last is not None:
            added_at = last.added_at
        if taken_at is UNCHANGED:
            taken_at = None if last is None else last.taken_at
        if added_at is None:
            raise UnknownPlace(after.image_id)
        return key_of(after.image_id, added_at, taken_at, order)

    def months(self) -> Mapping[str, int]:
        """The numbers of visible pictures by month, see Catalog.months; a picture being moved may count twice."""
        return added_up(self._ask_all(ShardLists.months))

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        """The tags of visible pictures, see Catalog.tags."""
        parts = self._ask_all(ShardLists.tags, most_names, MOST_VALUES, containing, after)
        return merged_tags(itertools.chain(*parts), most_values)[:most_names]

    def failure(self, image_id: str) -> Failure | None:
        """The reason why a picture was set aside, or has no regions; None where it was not."""
        return next(iter(known_in_shards(self._fan_out, self._placement(), ShardLists.failure, image_id)), None)

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        """Pictures set aside, the latest first, after a position in their list."""
        parts = self._ask_all(ShardLists.failures, after, limit)
        failures = {failure.image_id: failure for part in parts for failure in part}
        return sorted(failures.values(), key=failure_key)[:limit]

    def counts(self) -> Mapping[str, int]:
        """The numbers of pictures in the states "ready", "queued", "failed" and "deleted"."""
        return added_up(self._ask_all(ShardLists.counts))

    def collection_id(self) -> str | None:
        """None, since each replica has an id of its own, and a cluster has none."""
        return None

    def view_states(self) -> Sequence[tuple[ModelView, ViewState]]:
        """The models, each with the part of the pictures that it can search."""
        parts = self._ask_all(ShardLists.view_states)
        return [(model, merged_state(part[model.header.digest] for part in parts)) for model in self._models]

    def build_view(self, model: ModelView, now: float) -> ViewState:
        """Have a model's view built and maintained from now on. Returns its state."""
        for shard in range(self._placement().num_shards):
            self._writers.write(shard, BuildView(digest=model.header.digest, now=now))
        return next(state for known, state in self.view_states() if known is model)

    def _ask_all(self, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> list[T]:
        """The answers of all shards, in their order. Raises ShardLost where one does not answer."""
        return every_shard(self._fan_out, self._placement().num_shards, method, *arguments)


def added_up(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sums of the shards' counts, by name."""
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def merged_state(parts: Iterable[ViewState]) -> ViewState:
    """The state of a model's views in all shards together: the worst state, and the sums of the counts."""
    states = list(parts)
    found = {state.state for state in states}
    worst = next(word for word in ("not built", "building", "ready") if word in found)
    return ViewState(
        worst,
        pictures=sum(state.pictures for state in states),
        captions=sum(state.captions for state in states),
        missing_pictures=sum(state.missing_pictures for state in states),
        missing_captions=sum(state.missing_captions for state in states),
    )


def merged_tags(parts: Iterable[TagUse], most_values: int) -> list[TagUse]:
    """The uses of each tag in all shards together, by name."""
    pictures, values = Counter[str](), defaultdict[str, Counter[TagValue]](Counter)
    for tag in parts:
        pictures[tag.name] += tag.num_pictures
        values[tag.name].update(dict(tag.values))
    return [
        TagUse(
            name=name,
            num_pictures=pictures[name],
            num_values=len(values[name]),
            values=tuple(sorted(values[name].items(), key=lambda item: (-item[1], str(item[0])))[:most_values]),
        )
        for name in sorted(values)
    ]
