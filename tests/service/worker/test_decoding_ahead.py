"""Pictures that are decoded before their turn are decoded once; dropped ones again when their turn comes."""

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.worker.decoding_ahead import DecodedFiles, DecodingAhead


class Decoders:
    """Decoders that note what they were given; those in the background end when the test says."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.background: dict[str, Future[str]] = {}

    def submit(self, path: Path, *rest: Any, with_coordinates: bool) -> "Future[str]":
        self.background[path.name] = Future()
        return self.background[path.name]

    def decode(self, path: Path, *rest: Any, with_coordinates: bool) -> str:
        self.given.append(path.name)
        return f"{path.name} now"


def picture(name: str) -> Any:
    return SimpleNamespace(image_id=name)


def taken(ahead: DecodingAhead[Any], name: str) -> Any:
    """The result of the decoders, which is no picture here."""
    return ahead.take(picture(name))


def files_of(stored: Any) -> DecodedFiles:
    return Path(stored.image_id), None, None


@pytest.fixture
def decoders() -> Decoders:
    return Decoders()


@pytest.fixture
def ahead(decoders: Decoders) -> DecodingAhead[Any]:
    return DecodingAhead(decoders, files_of)  # type: ignore[arg-type]


def test_what_was_begun_is_not_begun_again_and_taken_once(decoders: Decoders, ahead: DecodingAhead[Any]) -> None:
    ahead.begin(picture("a"))
    begun = decoders.background["a"]
    ahead.begin(picture("a"))
    assert decoders.background["a"] is begun
    assert not ahead.is_done("a")
    begun.set_result("a before")
    assert ahead.is_done("a")
    assert taken(ahead, "a") == "a before"
    assert taken(ahead, "a") == "a now"
    assert decoders.given == ["a"]


def test_what_is_dropped_is_decoded_in_its_turn(decoders: Decoders, ahead: DecodingAhead[Any]) -> None:
    for name in "abc":
        ahead.begin(picture(name))
    ahead.keep({"b"})
    assert [decoders.background[name].cancelled() for name in "abc"] == [True, False, True]
    decoders.background["b"].set_result("b before")
    assert [taken(ahead, name) for name in "abc"] == ["a now", "b before", "c now"]
    ahead.begin(picture("a"))
    ahead.forget()
    assert decoders.background["a"].cancelled()
