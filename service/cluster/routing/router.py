"""The router: the web side of a cluster. It encodes questions and asks the shards; it stores no pictures."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from service.api.collection import OwnParts, ServedCollection
from service.api.problems import problem_response
from service.api.services import Services, build_services
from service.cluster.asgi_calls import AppRequest, AppResponse
from service.cluster.messages import ShardLost
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import FanOut, all_answers
from service.cluster.routing.jobs import ClusterJobs
from service.cluster.routing.open_shards import TooFewShards
from service.cluster.routing.picture_homes import PictureHomes, ShardWriters
from service.cluster.routing.picture_store import ClusterPictureStore
from service.cluster.routing.pictures import ClusterPictures
from service.cluster.routing.sharded_gallery import ShardedGalleries
from service.cluster.routing.threads import ShardThreads
from service.cluster.shards.lists import ShardLists
from service.cluster.shards.node import ShardNode
from service.errors import Problem
from service.model_loading import LoadedModels
from service.search.engine import SearchEngine
from service.search.query import AnyRequest, OpenQuery
from service.settings import Settings

ATTEMPTS = 3  # of a search during which a shard is lost
FORWARDED = (  # routes about one picture, which its shard answers itself
    "/images/{image_id}",
    "/images/{image_id}/original",
    "/images/{image_id}/thumbnail",
    "/images/{image_id}/deleted-thumbnail",
    "/images/{image_id}/regions",
    "/images/{image_id}/info",
    "/images/{image_id}/explain.png",
)
KEPT_HEADERS = (
    *(b"accept", b"range", b"if-range"),
    *(b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"),
)
OWN_HEADERS = (b"x-request-id", b"x-content-type-options", b"content-security-policy", b"referrer-policy")
MISSING, SERVER_FAULT = 404, 500
KEYS_LAST_S = 300.0  # for which a copy of the keys is valid without an answer of the director
T = TypeVar("T")


class WithoutLostShards:
    """Runs searches over shards; a search during which a shard is lost is restarted without it."""

    def __init__(self, galleries: ShardedGalleries) -> None:
        self._galleries = galleries

    def __call__(self, search: Callable[[OpenQuery[AnyRequest]], T], query: OpenQuery[AnyRequest], /) -> T:
        """The result of a search. Raises TooFewShards, or ShardLost where a shard is lost in every attempt."""
        lost: set[int] = set()
        for _ in range(ATTEMPTS - 1):
            try:
                return search(query)
            except TooFewShards:
                raise
            except ShardLost as fault:
                lost |= set(fault.shards)
                query = OpenQuery(query.request, *self._galleries.open(query.request, lost), query.parsed)
        return search(query)


class ForwardToShards:
    """A middleware that forwards requests about one picture to its shard; all others pass through."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], homes: PictureHomes, fan_out: FanOut, deadline_s: float
    ) -> None:
        """A shard has `deadline_s` seconds, including the time that a request waits for others of the same shard; some
        answers are drawn from the original."""
        self._app, self._homes, self._fan_out, self._deadline_s = app, homes, fan_out, deadline_s
        self._threads = ShardThreads()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application, inside all guards of the router."""
        path = getattr(scope.get("route"), "path", None)
        if scope["type"] != "http" or path not in FORWARDED or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        try:
            end = time.monotonic() + self._deadline_s
            shard = await self._home(scope["path_params"]["image_id"])
            response = await self._threads.run(shard, partial(self._forward, scope, path, shard, end))
        except Problem as problem:
            await problem_response(problem, scope)(scope, receive, send)
            return
        headers = [header for header in response.headers if header[0] not in OWN_HEADERS]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _home(self, image_id: str) -> int:
        """The home shard of a picture, which is looked up only while pictures are moved."""
        places = self._homes.places(image_id)
        if len(places) == 1:
            return places[0]
        return await self._threads.run(places[-1], partial(self._homes.home, image_id))

    def _forward(self, scope: Mapping[str, Any], path: str, shard: int, end: float) -> AppResponse:
        headers = [header for header in scope["headers"] if header[0] in KEPT_HEADERS]
        if "request_id" in scope:
            headers.append((b"x-request-id", scope["request_id"].encode()))
        request = AppRequest(scope["method"], scope["path"], scope["query_string"], tuple(headers))
        call = {shard: (request,)}
        timed_as, left_s = f"http {path}", end - time.monotonic()
        if left_s <= 0:  # requests before this one took all of its time
            raise ShardLost(f"Shard {shard} does not answer; try again shortly.", [shard])
        answers = all_answers(self._fan_out, ShardNode.http, call, deadline_s=left_s, timed_as=timed_as)
        response = answers[shard]
        assert isinstance(response, AppResponse)
        if response.status == MISSING or response.status >= SERVER_FAULT:  # perhaps from this replica only
            others: list[AppResponse] = self._fan_out.ask_every(ShardNode.http, call, self._deadline_s)[shard]
            response = min([response, *others], key=lambda answer: answer.status)
        return response


class KeyFileCopy:
    """A local copy of the cluster's key file, so that keys are checked as on a single machine."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._content: bytes | None = None
        self._clock, self._updated_at = clock, clock()

    def doubt(self) -> str | None:
        """The reason why the copy may lack revocations; None where it is current."""
        age_s = self._clock() - self._updated_at
        if self._content is None or age_s <= KEYS_LAST_S:
            return None
        return f"the director, which knows of keys that were revoked, has not answered for {KEYS_LAST_S:.0f} s"

    def update(self, content: bytes | None) -> None:
        """Write the director's key file; None stands for no file."""
        self._updated_at = self._clock()
        if content == self._content:
            return
        if content is None:
            self.path.unlink(missing_ok=True)
        else:
            fresh = self.path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(self.path)
        self._content = content


def router_services(
    settings: Settings,
    loaded: LoadedModels,
    fan_out: FanOut,
    writers: ShardWriters,
    placement: Callable[[], Placement],
    round_trips: int = 2,
) -> Services:
    """The web side of a cluster.

    `settings.data_dir` is an empty folder of the router, for incoming uploads and its copy of the keys.
    """

    def collection(own: OwnParts) -> ServedCollection:
        galleries = ShardedGalleries(fan_out, own.models, own.extractor.digest, placement, round_trips)
        pictures = ClusterPictures(fan_out, writers, placement, own.models)
        return ServedCollection(
            pictures=pictures,
            original_files=pictures,
            search=SearchEngine(galleries, own.models, own.extractor, WithoutLostShards(galleries)),
            progress=ClusterJobs(fan_out, placement),
            store=ClusterPictureStore(fan_out, writers, placement),
            checks={"shards": partial(shards_state, fan_out)},
            is_remote=True,
        )

    return build_services(settings, loaded, wake=lambda: None, collection=collection)


def shards_state(fan_out: FanOut) -> str:
    """`ok` where every shard has a replica that answers, else the shards without one."""
    num_shards = len(fan_out.replicas)
    answered = fan_out.ask(ShardLists.counts, dict.fromkeys(range(num_shards), ()))
    missing = [str(shard) for shard in range(num_shards) if shard not in answered]
    return f"no replica of shard {', '.join(missing)} answers" if missing else "ok"
