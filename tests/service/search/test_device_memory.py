"""A device without memory: a batch is halved once, and what then finds none is refused for a while."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.matcher import Matcher
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.search.scoring import rerank
from service.search.scoring.device_memory import split_once
from tests.support.library import image_id_of, sixty_four
from tests.support.web_app import Api, checked, problem, served

ROOM = 40  # pairs that the device has memory for: more than half of the 64 that are scored at a time
METHODS = ("score", "explain")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(sixty_four(tmp_path), cache_entries=0) as api:
        api.services.capacity.accelerator.enqueue(0, lambda: None).result()  # after what the model costs was measured
        yield api


def short_of_memory(method: Callable[..., Any], room: int, sizes: list[int]) -> Callable[..., Any]:
    """The matcher's method on a device with room for so many pairs; notes how many it is asked for."""

    def run(images: EncodedImages, texts: EncodedTexts) -> Any:
        sizes.append(len(images) * len(texts))
        if sizes[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return method(images, texts)

    return run


def give_room(matcher: Matcher, room: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Leave the matcher's device room for so many pairs; the sizes of what it is asked for from now on."""
    sizes: list[int] = []
    for name in METHODS:
        monkeypatch.setattr(matcher, name, short_of_memory(getattr(matcher, name), room, sizes))
    return sizes


def ask_for_captions(api: Api, **fields: str) -> Any:
    return api.request("POST", "/search/image", files={"image_id": (None, image_id_of("red and blue"))}, data=fields)


def test_a_search_goes_on_in_halves_with_the_same_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checked(api.text("red and blue", k=50, explain=True), 200, TextAnswer)
    captions = checked(ask_for_captions(api, k="50", explain="true"), 200, ImageAnswer)
    sizes = give_room(api.library.matcher, ROOM, monkeypatch)
    after = checked(api.text("red and blue", k=50, explain=True), 200, TextAnswer)
    assert sizes[:3] == [64, 32, 32]
    assert after["results"] == before["results"]
    again = checked(ask_for_captions(api, k="50", explain="true"), 200, ImageAnswer)
    assert again["results"] == captions["results"]
    assert max(sizes) == 64


def test_where_a_half_finds_none_either_the_caller_is_told_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        sizes = give_room(api.library.matcher, 0, full)
        for answer in (api.text("red and blue"), ask_for_captions(api)):
            assert problem(answer, 503, "overloaded")["retry_after"] >= 1
            assert int(answer.headers["retry-after"]) >= 1
        assert sizes == [64, 32, 64, 32]
        assert "CUDA" not in answer.text
        problem(api.get("/readyz"), 503, "not-ready")
    assert len(checked(api.text("red and blue"), 200, TextAnswer)["results"]) == 10


def test_a_picture_and_a_sentence_that_find_none_are_told_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with monkeypatch.context() as device:
        device.setattr(api.library.matcher, "encode_sentences", full)
        device.setattr(api.library.matcher, "encode_regions", full)
        problem(api.text("green"), 503, "overloaded")
        problem(ask_for_captions(api), 503, "overloaded")
    assert api.text("green").status_code == 200


def test_kernels_score_in_halves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = sixty_four(tmp_path)
    view = library.models.default.snapshot()
    assert view is not None
    asked: list[int] = []

    def score_stored(records: Any, rows: Any, texts: EncodedTexts) -> Tensor:
        asked.append(len(rows))
        if len(rows) > ROOM:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return torch.from_numpy(np.asarray(rows, np.float32))[None]

    monkeypatch.setattr(library.matcher, "score_stored", score_stored)
    texts, _ = library.matcher.encode_sentences(["red"])
    rows = np.arange(63, -1, -1)
    np.testing.assert_array_equal(rerank.score_stored(library.matcher, view, rows, texts), rows)
    assert asked == [64, 32, 32]
    library.close()


@pytest.mark.parametrize(("size", "tried"), [(64, [64, 32]), (7, [7, 4]), (2, [2, 1]), (1, [1])])
def test_a_batch_is_halved_once(size: int, tried: list[int]) -> None:
    seen: list[int] = []

    def work(batch: int) -> None:
        seen.append(batch)
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        split_once(work, size)
    assert seen == tried


def test_no_other_fault_is_tried_again() -> None:
    seen: list[int] = []

    def work(batch: int) -> None:
        seen.append(batch)
        raise RuntimeError("device-side assert triggered")

    with pytest.raises(RuntimeError, match="assert"):
        split_once(work, 64)
    assert seen == [64]
