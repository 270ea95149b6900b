"""The picture that shows why a stored picture answers a sentence."""

import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import PIL.Image
import pytest

from models.batches import Regions
from models.matching.encoded import HalfPrecisionOverflow
from service.api.routes import explanations
from service.api.routes.explanations import png_of
from service.api.schemas.resources import IngestAnswer
from service.media.decode_pool import DecodedPicture
from service.search.query_costs import DRAWING_COST
from tests.support.fakes import FakeMatcher
from tests.support.library import Library, two_coloured
from tests.support.marked_pictures import QUERY, MarkExtractor, check_panels, marked_files, size_of
from tests.support.web_app import Api, checked, png, problem, served

P = ParamSpec("P")
T = TypeVar("T")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path, extractor=MarkExtractor())) as api:
        yield api


def stored(api: Api, name: str, content: bytes) -> str:
    """The id of a picture, once it can be found."""
    answer = api.request("POST", "/ingest", files={"images": (name, content)})
    api.library.work(api.services.storage.originals, api.services.pool)
    image_id: str = checked(answer, 202, IngestAnswer)["accepted"][0]["image_id"]
    return image_id


@pytest.mark.slow
def test_regions_are_lit_where_they_are_however_a_picture_is_stored(api: Api) -> None:
    for name, content in marked_files().items():
        answer = api.get(f"/images/{stored(api, name, content)}/explain.png", query=QUERY)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png"), name
        with PIL.Image.open(io.BytesIO(answer.content)) as sheet:
            check_panels(sheet, size_of(name))


def test_a_lost_original_is_said_in_words(api: Api) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))
    api.services.storage.originals.path(image_id, "png").unlink()
    refused = problem(api.get(f"/images/{image_id}/explain.png", query="red"), 404, "not-found")
    assert "upload the same file again" in refused["detail"]


def test_an_original_that_is_erased_before_it_is_decoded_is_missing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))
    submit = api.services.pool.submit

    def erased(path: Path) -> Future[DecodedPicture]:
        path.unlink()
        return submit(path)

    monkeypatch.setattr(api.services.pool, "submit", erased)
    refused = problem(api.get(f"/images/{image_id}/explain.png", query="red"), 404, "not-found")
    assert "upload the same file again" in refused["detail"]


def test_an_original_that_cannot_be_read_is_not_missing(api: Api) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))
    api.services.storage.originals.path(image_id, "png").write_bytes(b"no picture")
    problem(api.get(f"/images/{image_id}/explain.png", query="red"), 422, "unreadable-picture")


def test_it_is_admitted_until_it_is_drawn(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id, accelerator = stored(api, "a.png", png(two_coloured("red", "blue"))), api.services.capacity.accelerator
    admitted, submit = [], api.services.pool.submit

    def noted(work: Callable[P, T]) -> Callable[P, T]:
        def run(*given: P.args, **named: P.kwargs) -> T:
            admitted.append(accelerator.admitted_cost)
            return work(*given, **named)

        return run

    monkeypatch.setattr(api.services.pool, "submit", noted(submit))
    monkeypatch.setattr(explanations, "png_of", noted(png_of))
    assert api.get(f"/images/{image_id}/explain.png", query="red").status_code == 200
    assert min(admitted) >= DRAWING_COST
    assert len(admitted) == 2
    assert accelerator.admitted_cost == 0
    with accelerator.admit(api.settings.queue_cost):
        problem(api.get(f"/images/{image_id}/explain.png", query="red"), 503, "overloaded")


def test_what_cannot_be_explained_is_said_in_words(api: Api) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))
    path = f"/images/{image_id}/explain.png"
    assert problem(api.get(path), 422, "invalid-request")["errors"][0]["field"] == "query"
    assert problem(api.get(path, query=" "), 422, "invalid-request")["errors"][0]["field"] == "query"
    for much in ("a " * 200, "\ufdfa" * 29):
        assert problem(api.get(path, query=much), 422, "invalid-request")["errors"][0]["field"] == "query"
    problem(api.get(path, query="red", model="nothing"), 404, "unknown-model")
    problem(api.get(f"/images/{'0' * 32}/explain.png", query="red"), 404, "not-found")


def test_a_picture_that_a_model_has_no_room_for_is_said_in_words(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))

    def overflow(self: FakeMatcher, regions: Regions) -> NoReturn:
        raise HalfPrecisionOverflow("vectors of a picture hold 7e+04")

    monkeypatch.setattr(FakeMatcher, "encode_regions", overflow)
    refused = problem(api.get(f"/images/{image_id}/explain.png", query="red"), 422, "invalid-request")
    assert refused["errors"][0]["problem"] == "vectors of a picture hold 7e+04"


def test_it_waits_for_a_decoder_and_for_no_upload(api: Api) -> None:
    image_id = stored(api, "a.png", png(two_coloured("red", "blue")))
    with ExitStack() as stack:
        for _ in range(api.settings.max_uploads):
            stack.enter_context(api.services.capacity.uploads.taken())
        assert api.get(f"/images/{image_id}/explain.png", query="red").status_code == 200
        for _ in range(api.settings.max_uploads):
            stack.enter_context(api.services.capacity.decoding.taken())
        problem(api.get(f"/images/{image_id}/explain.png", query="red"), 503, "overloaded")
    assert api.get(f"/images/{image_id}/explain.png", query="red").status_code == 200
