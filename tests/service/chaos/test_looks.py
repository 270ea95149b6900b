"""A look at a service finds each fault that is planted, and none where none is."""

from collections.abc import Callable
from contextlib import closing

import pytest

from service.chaos.findings import Findings
from service.chaos.ledger import Ledger, deleted, edited, uploaded
from service.chaos.looks import Interrupted, Look
from service.chaos.pictures import draw
from tests.support.fake_service import FakeService


class Scene:
    """Four pictures that a service acknowledged: one edited, one deleted, one that it never answered about."""

    def __init__(self) -> None:
        self.ledger = Ledger((number, draw(1, number)) for number in range(4))
        self.plain, self.edited, self.deleted, self.open = self.ledger.entries
        for entry in (self.plain, self.edited, self.deleted):
            entry.acknowledge(uploaded)
        self.edited.acknowledge(edited)
        self.deleted.acknowledge(deleted(0.0))
        self.open.leave_open(uploaded)
        self.service = FakeService()
        self.image = self.service.put(self.plain)
        self.service.put(self.edited, 1)
        self.findings = Findings()

    def look(self) -> list[tuple[str, str]]:
        """(kind, subject) of everything that one look finds."""
        with closing(Look("http://fake", self.findings, transport=self.service.transport())) as look:
            assert look.settle(60.0)
            look.compare(self.ledger.entries, "fake")
        return [(finding.kind, finding.subject) for finding in self.findings.all()]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_where_nothing_is_wrong_nothing_is_found(scene: Scene) -> None:
    assert scene.look() == []
    assert scene.open.must_be_hidden  # the look has told what became of the upload that nobody answered


def test_an_upload_without_answer_may_have_been_accepted(scene: Scene) -> None:
    scene.service.put(scene.open)
    assert scene.look() == []
    assert scene.open.must_be_seen


def drop(scene: Scene) -> None:
    scene.service.images.remove(scene.image)


def hide_from_searches(scene: Scene) -> None:
    scene.service.unfound.add(scene.plain.picture.image_id)


def forget_an_edit(scene: Scene) -> None:
    scene.service.images.pop()
    scene.service.put(scene.edited, 0)


def bring_back(scene: Scene) -> None:
    scene.service.put(scene.deleted)


def find_what_is_deleted(scene: Scene) -> None:
    scene.service.also_found.add(scene.deleted.picture.image_id)


def lose_the_picture(scene: Scene) -> None:
    scene.service.without[scene.image["url"]] = "gone"


def lose_the_thumbnail(scene: Scene) -> None:
    scene.service.without[scene.image["thumbnail_url"]] = "gone"


def lose_the_regions(scene: Scene) -> None:
    scene.service.blank.add(scene.plain.picture.image_id)


def lose_the_caption(scene: Scene) -> None:
    scene.image["captions"] = []


def fail(scene: Scene) -> None:
    scene.image["state"] = "failed"


def list_twice(scene: Scene) -> None:
    scene.service.put(scene.plain)


def find_twice(scene: Scene) -> None:
    scene.service.found_twice.add(scene.plain.picture.image_id)


@pytest.mark.parametrize(
    ("plant", "kind", "subject"),
    [
        (drop, "lost", "plain"),
        (hide_from_searches, "lost", "plain"),
        (forget_an_edit, "lost", "edited"),
        (bring_back, "lost", "deleted"),
        (find_what_is_deleted, "lost", "deleted"),
        (lose_the_picture, "half", "plain"),
        (lose_the_thumbnail, "half", "plain"),
        (lose_the_regions, "half", "plain"),
        (lose_the_caption, "half", "plain"),
        (fail, "half", "plain"),
        (list_twice, "duplicated", "plain"),
        (find_twice, "duplicated", "plain"),
    ],
)
def test_a_planted_fault_is_found(scene: Scene, plant: Callable[[Scene], None], kind: str, subject: str) -> None:
    plant(scene)
    assert scene.look() == [(kind, getattr(scene, subject).picture.image_id)]
    assert scene.look() == [(kind, getattr(scene, subject).picture.image_id)]  # once, however often it is seen


def test_a_picture_that_nobody_sent_is_found(scene: Scene) -> None:
    (stranger,) = Ledger([(9, draw(2, 9))]).entries
    scene.service.put(stranger)
    assert scene.look() == [("fault", stranger.picture.image_id)]


def test_a_picture_that_kills_had_set_aside_is_tried_again(scene: Scene) -> None:
    reason = "Finding regions ended the worker 5 times, perhaps for want of memory."
    scene.service.failures.append({"image_id": scene.plain.picture.image_id, "reason": reason})
    assert scene.look() == []
    assert scene.service.retried == [scene.plain.picture.image_id]


def test_a_search_that_is_refused_is_a_finding_and_finds_nothing(scene: Scene) -> None:
    scene.service.broken = True
    with closing(Look("http://fake", scene.findings, transport=scene.service.transport())) as look:
        assert look.hits("/search/text", json={}) == []
    assert [(finding.kind, finding.subject) for finding in scene.findings.all()] == [("fault", "POST /search/text")]


def test_a_service_that_fails_inside_is_found(scene: Scene) -> None:
    scene.service.broken = True
    with pytest.raises(Interrupted):
        scene.look()
    assert [(finding.kind, finding.subject) for finding in scene.findings.all()] == [("fault", "GET /failures")]
