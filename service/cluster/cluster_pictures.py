"""The pictures of a whole cluster, as routes see them: asked of the shards, changed through their writers."""

import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, TypeVar, TypeVarTuple

from index.failures import FailureKey, failure_key
from index.filters import Filter
from index.list_orders import PageKey, UnknownPlace, key_of, page_key
from index.records import (
    UNCHANGED,
    Failure,
    Image,
    ImageOrder,
    JobState,
    JobStatus,
    ListPlace,
    PictureChange,
    TagUse,
    TagValue,
)
from service.cluster.fan_out import READ_DEADLINE_S, FanOut, all_answers
from service.cluster.messages import SHARD_RETRY_S, Moved, ShardLost
from service.cluster.operations import BuildView, Delete, Edit, Operation, Restore, Retry, TakeIn, has_picture
from service.cluster.placement import Placement
from service.cluster.shard_lists import ShardLists
from service.cluster.shard_replica import REGIONS, Files
from service.errors import NotReady
from service.ingest.picture_store import ReceivedPicture, TakenIn
from service.search.model_views import ModelView, ModelViews, ViewState

MOST_VALUES = 10_000  # of a tag in one shard: values are counted exactly as long as there are no more
STEP_BYTES = 16 * 2**20  # of pictures that one change takes in, so that no message is large
STEP_PICTURES = 64
ARRIVAL_STEP_S = 1e-6  # between the pictures of a request, so that their order is the same everywhere
MOVE_ATTEMPTS = 3  # of a change whose pictures are on the move
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ShardWriters(Protocol):
    """Reaches the writer of each shard."""

    def write(self, shard: int, operation: Operation, files: Files | None = None) -> Any:
        """Make a change; gives its result. NotReady where it was not acknowledged, and whatever the change raises."""


class ClusterPictures:
    """Asks and changes the shards that pictures belong to."""

    def __init__(
        self, fan_out: FanOut, writers: ShardWriters, placement: Callable[[], Placement], models: ModelViews
    ) -> None:
        """`placement` is the one of this moment."""
        self._fan_out, self._writers, self._placement, self._models = fan_out, writers, placement, models

    # -- one picture

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state; None when never seen, or erased."""
        return picture_in_shards(self._fan_out, self._placement(), image_id)

    def home(self, image_id: str) -> int:
        """The shard that has a picture, or would have it."""
        return homes(self._fan_out, self._placement(), [image_id])[image_id]

    def delete(self, image_id: str, now: float) -> bool:
        """Delete a picture; False when there is no such picture, or it is deleted already."""
        places = self._placement().places(image_id)[::-1]
        deleted = [self._writers.write(shard, Delete(image_id=image_id, now=now)) for shard in places]
        return any(deleted)

    def restore(self, image_id: str, kept_since: float) -> bool:
        """Undo a deletion; False unless there is one, not older than `kept_since`."""
        return bool(self._write_at_home(image_id, Restore(image_id=image_id, kept_since=kept_since)))

    def change(self, image_id: str, change: PictureChange) -> bool:
        """Change the description of a picture; False where there is none, or it is deleted."""
        given = {name: value for name, value in vars(change).items() if value is not UNCHANGED}
        return bool(self._write_at_home(image_id, Edit(image_id=image_id, changes=given)))

    def retry(self, image_id: str, now: float) -> str | None:
        """Try a picture that was set aside again; the job's id, None where it was not."""
        retry = Retry(image_id=image_id, job_id=uuid.uuid4().hex, now=now)
        job_id = self._write_at_home(image_id, retry)
        return None if job_id is None else str(job_id)

    def _write_at_home(self, image_id: str, operation: Operation) -> Any:
        """Have a picture's shard make a change; where the picture moves on meanwhile, the next one."""
        return until_settled(lambda: self._writers.write(self.home(image_id), operation))

    # -- all of them

    def page(self, after: ListPlace | None, limit: int, condition: Filter, order: ImageOrder) -> list[Image]:
        """Pictures that pass the filter, after the place. UnknownPlace."""
        key = None if after is None else self._key(after, order)
        parts = self._ask_all(ShardLists.page, key, limit, condition, order)
        # The shard that was added comes last: a copy in it counts once the picture is in no other.
        images = {image.image_id: image for part in reversed(parts) for image in part}
        return sorted(images.values(), key=lambda image: page_key(image, order))[:limit]

    def _key(self, after: ListPlace, order: ImageOrder) -> PageKey:
        last, taken_at = self.image(after.image_id), after.taken_at
        added_at = after.added_at if last is None else last.added_at
        if taken_at is UNCHANGED:
            taken_at = None if last is None else last.taken_at
        if added_at is None:
            raise UnknownPlace(after.image_id)
        return key_of(after.image_id, added_at, taken_at, order)

    def tags(self, most_names: int, most_values: int, containing: str, after: str) -> list[TagUse]:
        """The tags of visible pictures, see Catalog.tags."""
        parts = self._ask_all(ShardLists.tags, most_names, MOST_VALUES, containing, after)
        return merged_tags(itertools.chain(*parts), most_values)[:most_names]

    def failure(self, image_id: str) -> Failure | None:
        """Why a picture was set aside, or has no regions; None where it was not."""
        return next(iter(known_in_shards(self._fan_out, self._placement(), ShardLists.failure, image_id)), None)

    def failures(self, after: FailureKey | None, limit: int) -> list[Failure]:
        """Pictures set aside, those that came last first, after a place in their list."""
        parts = self._ask_all(ShardLists.failures, after, limit)
        failures = {failure.image_id: failure for part in parts for failure in part}
        return sorted(failures.values(), key=failure_key)[:limit]

    def counts(self) -> Mapping[str, int]:
        """The numbers of pictures that are "ready", "queued", "failed", "deleted"."""
        parts = self._ask_all(ShardLists.counts)
        return {state: sum(part[state] for part in parts) for state in parts[0]}

    def view_states(self) -> Sequence[tuple[ModelView, ViewState]]:
        """The models, and how much of the pictures each can search."""
        parts = self._ask_all(ShardLists.view_states)
        return [(model, merged_state(part[model.header.digest] for part in parts)) for model in self._models]

    def build_view(self, model: ModelView, now: float) -> ViewState:
        """Have a model's view built and kept up from now on; how far it is."""
        for shard in range(self._placement().num_shards):
            self._writers.write(shard, BuildView(digest=model.header.digest, now=now))
        return next(state for known, state in self.view_states() if known is model)

    def _ask_all(self, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> list[T]:
        """The answers of all shards, in their order. ShardLost where one does not answer."""
        asked = dict.fromkeys(range(self._placement().num_shards), arguments)
        answers = all_answers(self._fan_out, method, asked, deadline_s=READ_DEADLINE_S)
        return [answers[shard] for shard in asked]


class ClusterPictureStore:
    """Takes pictures into the shards that they belong to."""

    def __init__(self, fan_out: FanOut, writers: ShardWriters, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._writers, self._placement = fan_out, writers, placement

    def take_in(
        self,
        pictures: Sequence[ReceivedPicture],
        now: float,
        kept_since: float,
        job_id: str = "",
        regions: Mapping[str, bytes] | None = None,
    ) -> TakenIn:
        """A job of the pictures, of the id given or a new one; `regions` are those found already, by id.

        NotReady where a shard does not take its part: the others may have theirs, and the same request may come again.
        """
        operation = TakeIn(job_id=job_id or uuid.uuid4().hex, pictures=[], now=now, kept_since=kept_since)
        dated = [
            (
                number,
                ReceivedPicture(
                    one.path, replace(one.picture, added_at=one.picture.added_at or now + number * ARRIVAL_STEP_S)
                ),
            )
            for number, one in enumerate(pictures)
        ]
        duplicates: dict[int, bool] = {}
        until_settled(lambda: self._take_in_left(dated, operation, regions or {}, duplicates))
        return TakenIn(operation.job_id, [duplicates[number] for number in range(len(pictures))])

    def image(self, image_id: str) -> Image | None:
        """A picture in whatever state; None when never seen, or erased. ShardLost."""
        return picture_in_shards(self._fan_out, self._placement(), image_id)

    def _take_in_left(
        self,
        dated: Sequence[tuple[int, ReceivedPicture]],
        operation: TakeIn,
        parcels: Mapping[str, bytes],
        duplicates: dict[int, bool],
    ) -> None:
        """Take in those pictures that are not among `duplicates` yet, each where it is. NotReady, Moved."""
        placement, left = self._placement(), [(number, one) for number, one in dated if number not in duplicates]
        home = homes(self._fan_out, placement, [one.picture.image_id for _, one in left])
        by_shard: dict[int, list[tuple[int, ReceivedPicture]]] = defaultdict(list)
        for number, one in left:
            by_shard[home[one.picture.image_id]].append((number, one))
        for shard, placed in by_shard.items():
            for step in steps(placed):
                files = {one.picture.image_id: one.path.read_bytes() for _, one in step}
                files |= {f"{name}{REGIONS}": parcels[name] for name in files.keys() & parcels.keys()}
                own = replace(operation, pictures=[one.picture for _, one in step])
                if self._placement().num_shards != placement.num_shards:
                    raise NotReady("A shard was added just now: send it again.", retry_after=SHARD_RETRY_S)
                known = self._writers.write(shard, own, files)
                duplicates |= zip((number for number, _ in step), known, strict=True)


def known_in_shards(
    fan_out: FanOut, placement: Placement, method: Callable[[ShardLists, str], T | None], image_id: str
) -> list[T]:
    """The answers of those among a picture's shards that have one. ShardLost."""
    places = placement.places(image_id)
    answers = all_answers(fan_out, method, dict.fromkeys(places, (image_id,)), deadline_s=READ_DEADLINE_S)
    return [answer for shard in places if (answer := answers[shard]) is not None]


def picture_in_shards(fan_out: FanOut, placement: Placement, image_id: str) -> Image | None:
    """A picture in whatever state; while it is in two shards, as the one has it that it is moved from. ShardLost."""
    found = known_in_shards(fan_out, placement, ShardLists.image, image_id)
    return next((image for image in reversed(found) if has_picture(image)), found[0] if found else None)


def homes(fan_out: FanOut, placement: Placement, image_ids: Iterable[str]) -> dict[str, int]:
    """Id -> the shard that has a picture, or would have it: the one that it is moved from until that let it go.

    ShardLost.
    """
    places = {image_id: placement.places(image_id) for image_id in image_ids}
    moving = defaultdict[int, list[str]](list)
    for image_id, own in places.items():
        if len(own) > 1:
            moving[own[1]].append(image_id)
    answers = all_answers(
        fan_out, ShardLists.held, {shard: (some,) for shard, some in moving.items()}, deadline_s=READ_DEADLINE_S
    )
    held = {image_id for some in answers.values() for image_id in some}
    return {image_id: own[1] if image_id in held else own[0] for image_id, own in places.items()}


def until_settled(change: Callable[[], T]) -> T:
    """The result of a change, which looks anew where pictures are when they have moved meanwhile. Moved."""
    for _ in range(MOVE_ATTEMPTS - 1):
        try:
            return change()
        except Moved:
            continue
    return change()


def steps(placed: Sequence[tuple[int, ReceivedPicture]]) -> list[list[tuple[int, ReceivedPicture]]]:
    """The pictures in groups that are small enough for one change; copies of one picture stay together."""
    groups: list[list[tuple[int, ReceivedPicture]]] = []
    size = 0
    for number, one in sorted(placed, key=lambda item: (item[1].picture.image_id, item[0])):
        is_copy = bool(groups) and groups[-1][-1][1].picture.image_id == one.picture.image_id
        full = bool(groups) and (size + one.picture.num_bytes > STEP_BYTES or len(groups[-1]) >= STEP_PICTURES)
        if not groups or (full and not is_copy):
            groups.append([])
            size = 0
        groups[-1].append((number, one))
        size += one.picture.num_bytes
    return groups


class ClusterJobs:
    """The state of jobs whose pictures lie in several shards."""

    def __init__(self, fan_out: FanOut, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._placement = fan_out, placement

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `done` once it is so in every shard. ShardLost where one does not answer."""
        shards = range(self._placement().num_shards)
        every = self._fan_out.ask_every(ShardLists.job, dict.fromkeys(shards, (job_id,)), READ_DEADLINE_S)
        if silent := [shard for shard, parts in every.items() if not parts]:
            raise ShardLost(f"Shard {silent[0]} does not answer; try again shortly.")
        # Of replicas, the one that is furthest behind: any of them may answer the next search.
        parts = [
            min(known, key=lambda part: part.state == "done") for known in map(known_parts, every.values()) if known
        ]
        return merged_job(parts) if parts else None

    def jobs(self, limit: int) -> list[JobStatus]:
        """The jobs that came last, the latest first."""
        by_id: dict[str, list[JobStatus]] = defaultdict(list)
        for part in self._ask_all(ShardLists.jobs, limit):
            for job in part:
                by_id[job.job_id].append(job)
        latest = sorted(by_id.values(), key=lambda parts: -parts[0].created_at)[:limit]
        return [merged_job(parts) for parts in latest]

    def _ask_all(self, method: Callable[[ShardLists, *Ts], T], *arguments: *Ts) -> list[T]:
        asked = dict.fromkeys(range(self._placement().num_shards), arguments)
        return list(all_answers(self._fan_out, method, asked, deadline_s=READ_DEADLINE_S).values())


def known_parts(replicas: Iterable[JobStatus | None]) -> list[JobStatus]:
    """The parts of a job that replicas report, without those that have none of it."""
    return [part for part in replicas if part is not None]


def merged_job(parts: Sequence[JobStatus]) -> JobStatus:
    """One job of the parts that shards have of it; slots mean nothing beyond a shard, and are 0."""
    states: set[JobState] = {part.state for part in parts}
    failures = tuple(failure for part in parts for failure in part.failures)
    state: JobState = next(iter(states)) if len(states) == 1 else "running"
    total, done, failed = (sum(getattr(part, name) for part in parts) for name in ("total", "done", "failed"))
    sums = replace(parts[0], total=total, done=done, failed=failed)
    return replace(sums, state=state, failures=failures, picture_slots=0, caption_slots=0)


def merged_state(parts: Iterable[ViewState]) -> ViewState:
    """The state of a model's views of all shards together."""
    states = list(parts)
    words = {state.state for state in states}
    worst = next(word for word in ("not built", "building", "ready") if word in words)
    sums = [sum(getattr(state, name) for state in states) for name in list(asdict(states[0]))[1:]]
    return ViewState(worst, *sums)


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
