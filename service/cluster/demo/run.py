"""A demonstration of a cluster that loses a machine: three local nodes under load, one killed and restarted, and an
added shard. Every answer is compared with the right one, which is known beforehand.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from service.chaos.pictures import draw
from service.cluster.demo.local_nodes import RayCluster
from service.cluster.on_ray.bring_up import bring_up, take_down
from service.cluster.on_ray.director import running_cluster
from service.cluster.on_ray.overview import ClusterOverview, cluster_overview
from service.errors import UserError
from service.settings import ClusterSettings, Settings

CLIENT_PAUSE_S = 0.1
CALM_S = 2.0  # of load before and after each event
READY_S = 600.0
DEMO_TAG = "came"
FIRST, SECOND = "first", "late"
SCORE_TOLERANCE = 1e-6
QUESTIONS = (
    "a red ball and a blue box",
    "a white ground",
    "a yellow box on a black ground",
    "a dog runs on grass",
    "people on a street",
    "a green ball",
    "a man in a red shirt",
    "water and snow",
)


@dataclass(frozen=True)
class DemoPlan:
    """The size of the demonstration. `photos` None: generated pictures."""

    num_pictures: int = 120
    num_late: int = 12
    """Pictures that are ingested while a node is down."""
    num_shards: int = 2
    num_replicas: int = 2
    num_clients: int = 8
    photos: Path | None = None
    add_shard: bool = True


@dataclass
class DemoFindings:
    """The counts of a demonstration's answers; `faults` describes every wrong one."""

    nodes: int = 3
    killed: int = 0
    asked: int = 0
    refused: int = 0
    partial: int = 0
    lost: int = 0
    whole_after_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether no answer was wrong and no picture is lost."""
        return not self.faults and not self.lost

    def __str__(self) -> str:
        """The last line of the demonstration."""
        return (
            f"nodes {self.nodes}, killed {self.killed}, asked {self.asked}, wrong {len(self.faults)}, lost {self.lost},"
            f" partial {self.partial}, whole again after {self.whole_after_s:.1f} s"
        )


@dataclass(frozen=True)
class RightAnswer:
    """The whole ranking of a question: ids and scores."""

    image_ids: Sequence[str]
    scores: Sequence[float]

    def fault(self, answer: dict[str, Any]) -> str | None:
        """The fault of an answer; None where it is right.

        A whole answer is the beginning of the ranking. A partial one may leave out pictures, but changes neither order
        nor scores.
        """
        hits = [(hit["image_id"], hit["score"]) for hit in answer["results"]]
        places = {image_id: place for place, image_id in enumerate(self.image_ids)}
        if unknown := [image_id for image_id, _ in hits if image_id not in places]:
            return f"{unknown[0]} does not belong there"
        order = [places[image_id] for image_id, _ in hits]
        if order != sorted(order):
            return "the order is another"
        if is_whole(answer) and order != list(range(len(order))):
            missing = next(rank for rank, place in enumerate(order) if rank != place)
            return f"{self.image_ids[missing]} is missing in an answer that says it is whole"
        wrong = [image_id for image_id, score in hits if abs(score - self.scores[places[image_id]]) > SCORE_TOLERANCE]
        return f"the score of {wrong[0]} is another" if wrong else None


def is_whole(answer: dict[str, Any]) -> bool:
    """Whether every shard answered."""
    shards = answer["shards"]
    return bool(shards["asked"] == shards["answered"])


class DemoClient(threading.Thread):
    """Searches again and again, and compares the answers with the right ones."""

    def __init__(self, url: str, right_answers: dict[str, RightAnswer], seed: int, stop: threading.Event) -> None:
        super().__init__(name=f"client {seed}", daemon=True)
        self._url, self._right_answers, self._over = url, right_answers, stop
        self._draw = random.Random(seed)
        self._began = time.monotonic()
        self.asked = self.refused = self.partial = 0
        self.faults: list[str] = []
        self.last_incomplete = float("-inf")

    def run(self) -> None:
        """Search until `stop` is set."""
        with httpx.Client(base_url=self._url, timeout=30.0) as client:
            while not self._over.is_set():
                question = self._draw.choice(sorted(self._right_answers))
                self._ask(client, question, self._draw.randint(1, 10))

    def _ask(self, client: httpx.Client, question: str, k: int) -> None:
        body = search_body(question, k)
        self.asked += 1
        try:
            response = client.post("/search/text", json=body)
        except httpx.TransportError:
            response = None
        if response is None or response.status_code != 200:
            self.refused += 1
            self.last_incomplete = time.monotonic()
            time.sleep(0.05)
            return
        time.sleep(CLIENT_PAUSE_S)  # nodes and clients share this machine
        answer = response.json()
        if not is_whole(answer):
            self.partial += 1
            self.last_incomplete = time.monotonic()
        if (fault := self._right_answers[question].fault(answer)) is not None:
            self.faults.append(f"{time.monotonic() - self._began:.1f} s into the load, {question!r}: {fault}")


def search_body(question: str, k: int) -> dict[str, Any]:
    """A search among the pictures that were ingested first, by what they show."""
    chosen = {"tags": {DEMO_TAG: FIRST}}
    return {"query": question, "k": k, "shortlist": 1000, "match": "pictures", "filter": chosen}


class Demo:
    """The demonstration on a running Ray cluster."""

    def __init__(self, cluster: RayCluster, settings: Settings, plan: DemoPlan, notify: Callable[[str], None]) -> None:
        self._cluster, self._settings, self._plan, self._notify = cluster, settings, plan, notify
        self._chosen = ClusterSettings(ray_address=cluster.address, shards=plan.num_shards, replicas=plan.num_replicas)
        self._url = f"http://127.0.0.1:{settings.port}"
        self._client = httpx.Client(base_url=self._url, timeout=120.0)
        self._began = time.monotonic()
        self.findings = DemoFindings()

    def run(self) -> DemoFindings:
        """Run the whole demonstration. Returns its findings. The collection is taken down at the end."""
        try:
            self._show()
        finally:
            self._client.close()
            take_down(self._chosen)
        return self.findings

    def _say(self, event: str) -> None:
        """Report an event with its time since the load began."""
        self._notify(f"{time.monotonic() - self._began:.1f} s: {event}")

    def _show(self) -> None:
        self._notify("starting shards and routers")
        bring_up(self._settings, self._chosen)
        self._until_ready()
        known = self._ingest(self._pictures(0, self._plan.num_pictures), FIRST)
        self._notify(f"{len(known)} pictures can be found")
        right = {question: self._right_answer(question) for question in QUESTIONS}
        stop = threading.Event()
        self._began = time.monotonic()
        clients = [DemoClient(self._url, right, seed, stop) for seed in range(self._plan.num_clients)]
        for client in clients:
            client.start()
        try:
            time.sleep(CALM_S)
            known |= self._lose_a_node(clients)
            if self._plan.add_shard:
                self._say(f"shard {running_cluster(self._chosen).add_shard()} is added")
                self._until(lambda overview: not overview.is_growing)
                self._say("every picture is where it belongs")
            time.sleep(CALM_S)
        finally:
            stop.set()
            for client in clients:
                client.join()
        for client in clients:
            self.findings.asked += client.asked
            self.findings.refused += client.refused
            self.findings.partial += client.partial
            self.findings.faults += client.faults
        self.findings.lost = len(known - self._stored())

    def _lose_a_node(self, clients: Sequence[DemoClient]) -> set[str]:
        """Kill a node, ingest pictures without it, and restart it. Returns the ids of the acknowledged pictures."""
        killed_at = time.monotonic()
        self._cluster.kill("node-2")
        self.findings.killed += 1
        self._say("node-2 was killed")
        late = self._pictures(self._plan.num_pictures, self._plan.num_late)
        known = self._ingest(late, SECOND)
        time.sleep(CALM_S)
        self.findings.whole_after_s = max(0.0, max(client.last_incomplete for client in clients) - killed_at)
        self._cluster.start("node-2")
        self._say("node-2 is back")
        self._until(lambda overview: all(row.state == "answers" for row in overview.replicas))
        return known

    def _pictures(self, first: int, count: int) -> list[tuple[str, bytes]]:
        """Names and contents of pictures."""
        if self._plan.photos is None:
            drawn = [draw(1, number) for number in range(first, first + count)]
            return [(picture.name, picture.content) for picture in drawn]
        paths = sorted(
            path for path in self._plan.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png")
        )
        if len(paths) < first + count:
            raise UserError(
                f"{self._plan.photos} holds {len(paths)} pictures, and the demonstration takes {first + count}: name"
                " another folder, or fewer with --pictures"
            )
        return [(path.name, path.read_bytes()) for path in paths[first : first + count]]

    def _ingest(self, pictures: Sequence[tuple[str, bytes]], tag: str) -> set[str]:
        """Send pictures until they are acknowledged, and wait until they can be found. Returns their ids."""
        known: set[str] = set()
        for start in range(0, len(pictures), 32):
            batch = pictures[start : start + 32]
            answer = self._send(batch, tag)
            known |= {file["image_id"] for file in answer["accepted"]}
            for _ in self._tries():
                job = self._client.get(answer["status_url"])
                if job.status_code == 200 and job.json()["state"] == "done":
                    break
        return known

    def _send(self, batch: Sequence[tuple[str, bytes]], tag: str) -> dict[str, Any]:
        """The receipt of a request, which is repeated while it is refused."""
        manifest = json.dumps({name: {"tags": {DEMO_TAG: tag}} for name, _ in batch})
        for _ in self._tries():
            answer = self._client.post(
                "/ingest", files=[("images", part) for part in batch], data={"manifest": manifest}
            )
            if answer.status_code == 202:
                receipt: dict[str, Any] = answer.json()
                return receipt
        raise AssertionError("unreachable")

    def _right_answer(self, question: str) -> RightAnswer:
        answer = self._client.post("/search/text", json=search_body(question, 100)).json()
        return RightAnswer([hit["image_id"] for hit in answer["results"]], [hit["score"] for hit in answer["results"]])

    def _stored(self) -> set[str]:
        """The ids of all stored pictures."""
        image_ids: set[str] = set()
        after = None
        while True:
            page = self._client.get("/images", params={"limit": 1000, **({"after": after} if after else {})}).json()
            image_ids |= {image["image_id"] for image in page["images"]}
            if (after := page["next"]) is None:
                return image_ids

    def _until_ready(self) -> None:
        for _ in self._tries():
            if self._client.get("/readyz").status_code == 200:
                break
        self._until(lambda overview: all(row.state == "answers" for row in overview.replicas))

    def _until(self, holds: Callable[[ClusterOverview], bool]) -> None:
        for _ in self._tries():
            if holds(cluster_overview(running_cluster(self._chosen))):
                return

    def _tries(self) -> Iterator[None]:
        """Attempts with pauses in between; TimeoutError after READY_S seconds."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            yield
            time.sleep(0.25)
        raise TimeoutError(f"the cluster did not come so far within {READY_S:.0f} s")
