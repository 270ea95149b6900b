"""Asking with a picture over HTTP: captions for it, pictures like it, and whatever is no picture."""

import contextlib
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.api.routes.search import FORM_BYTES
from service.api.schemas.results import ImageAnswer
from service.model_loading import LoadedModels
from service.search.engine import PICTURE_WEIGHT
from service.settings import Settings
from service.units import MB
from tests.support.busy_accelerator import busy
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.library import Library, image_id_of, sixty_four, two_coloured
from tests.support.pictures import encoded
from tests.support.web_app import Api, Web, checked, png, problem, served
from tests.support.worker_store import Store, noise


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(sixty_four(tmp_path_factory.mktemp("data"))) as api:
        yield api


def ask_with(api: Api, picture: bytes | None, **fields: Any) -> httpx.Response:
    parts: dict[str, Any] = {name: (None, str(value)) for name, value in fields.items()}
    if picture is not None:
        parts["image"] = ("asked.png", picture)
    return api.request("POST", "/search/image", files=parts)


def test_a_picture_asks_for_captions_and_for_pictures(api: Api) -> None:
    content = png(two_coloured("green", "magenta", 400, 200))
    captions = checked(ask_with(api, content, k=4, explain="true"), 200, ImageAnswer)
    assert captions["target"] == "captions"
    assert captions["results"][0]["text"] in {"green and magenta", "magenta and green"}
    assert captions["results"][0]["explanation"]["regions"][1]["box"] == [0, 0, 200, 200]
    assert set(captions["timings_ms"]) == {"detect", "encode", "shortlist", "rerank", "total"}
    pictures = checked(ask_with(api, content, target="images", k=2), 200, ImageAnswer)
    assert "green and magenta.png" in {hit["filename"] for hit in pictures["results"]}
    own = image_id_of("green and magenta")
    alike = checked(ask_with(api, None, target="images", k=5, image_id=own), 200, ImageAnswer)
    assert own not in {hit["image_id"] for hit in alike["results"]}
    wanted = json.dumps({"tags": {"left": "red"}})
    filtered = checked(ask_with(api, None, target="images", k=5, image_id=own, filter=wanted), 200, ImageAnswer)
    assert {hit["tags"]["left"] for hit in filtered["results"]} == {"red"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"k": "many"}, "k"),
        ({"target": "sounds"}, "target"),
        ({"filter": "{"}, "filter"),
        ({"filter": "NaN"}, "filter"),
        ({"filter": "[" * 5000}, "filter"),
        ({"filter": "[]"}, "filter"),
        ({"filter": '{"tags": {"a": null}}'}, "filter.tags.a"),
        ({"filter": '{"taken_at": "yesterday"}'}, "filter.taken_at"),
        ({"filter": '{"colour": "red"}'}, "filter.colour"),
        ({"sort": "date"}, "sort"),
        ({"query": "a dog"}, "query"),
        ({"target": "images", "query": " "}, "query"),
        ({"target": "images", "query": "\u200b"}, "query"),
        ({"target": "images", "query": "x" * 4000}, "query"),
        ({"target": "images", "query": "\ufdfa" * 29}, "query"),
        ({"target": "images", "query": "a " * 200}, "query"),
        ({"target": "images", "explain": "true"}, "explain"),
        ({"target": "images", "min_probability": "0.5"}, "min_probability"),
        ({"min_probability": "0.5"}, "min_probability"),
        ({"min_probability": "likely"}, "min_probability"),
        ({"image_id": "../../etc/passwd"}, "image_id"),
        ({"image_id": image_id_of("red and red")}, "image"),
        ({"shortlist": "5"}, "shortlist"),
    ],
)
def test_a_wrong_form_field_is_named(api: Api, fields: dict[str, str], field: str) -> None:
    answer = problem(ask_with(api, png(two_coloured("red", "red")), **fields), 422, "invalid-request")
    assert [error["field"] for error in answer["errors"]] == [field]


def test_what_is_no_picture_is_refused_with_its_reason(api: Api) -> None:
    assert problem(ask_with(api, b"hello"), 422, "unreadable-picture")["detail"].startswith("This is text, not")
    assert problem(ask_with(api, b""), 422, "unreadable-picture")["detail"].startswith("The file is empty")
    many = bytearray(png(two_coloured("red", "blue")))
    many[16:24] = struct.pack(">II", 20_000, 20_000)
    many[29:33] = struct.pack(">I", zlib.crc32(many[12:29]))
    detail = problem(ask_with(api, bytes(many)), 422, "unreadable-picture")["detail"]
    assert detail.endswith("more than 80 megapixels: save it smaller.")
    cut = png(two_coloured("red", "blue", 400, 400))[:100]
    assert "damaged or cut short" in problem(ask_with(api, cut), 422, "unreadable-picture")["detail"]
    problem(api.request("POST", "/search/image", json={}), 422, "invalid-request")
    problem(ask_with(api, None, k=3), 422, "invalid-request")
    problem(ask_with(api, None, image_id="0" * 32), 404, "not-found")
    assert list(api.services.storage.originals.incoming.iterdir()) == []


def test_an_answer_to_a_picture_is_kept(api: Api) -> None:
    asked = [("red", 7), ("red", 7), ("red", 8), ("blue", 7)]
    answers = [ask_with(api, png(two_coloured(colour, "white")), k=k) for colour, k in asked]
    assert [checked(answer, 200, ImageAnswer)["cached"] for answer in answers] == [False, True, False, False]


def test_a_file_over_the_limit_is_refused(api: Api) -> None:
    content = b"\xff\xd8" + bytes(api.settings.max_file_bytes)
    assert "over the limit" in problem(ask_with(api, content), 413, "too-large")["detail"]
    far_over = problem(ask_with(api, content + bytes(FORM_BYTES)), 413, "too-large")["detail"]
    assert (
        far_over == f"The file is too large: it may have {api.settings.max_file_bytes / MB:g} MB; take a smaller one."
    )


def test_without_any_caption_the_answer_says_so(tmp_path: Path) -> None:
    library = Library(tmp_path)
    bare = Api(library)
    try:
        content = png(two_coloured("green", "magenta"))
        for pictures in (0, 1):
            if pictures:
                library.add("red", two_coloured("red", "red"))
            answer = checked(ask_with(bare, content), 200, ImageAnswer)
            assert answer["results"] == []
            assert answer["note"].startswith("No captions are stored")
            assert "note" not in checked(ask_with(bare, content, target="images"), 200, ImageAnswer)
        library.add("blue", two_coloured("blue", "blue"), captions=["blue"], tags={"year": 2024})
        assert "note" not in checked(ask_with(bare, content), 200, ImageAnswer)
        nothing = checked(ask_with(bare, content, filter='{"tags": {"year": 1999}}'), 200, ImageAnswer)
        assert (nothing["results"], "note" in nothing) == ([], False)
    finally:
        bare.close()
        library.close()


def test_a_caption_of_no_readable_word_is_explained_as_it_is_scored(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with served(library) as api:
        for caption in ("green", "\u200b"):
            library.add(caption, two_coloured("green", "green"), captions=[caption])
        answer = checked(ask_with(api, png(two_coloured("green", "magenta")), explain="true"), 200, ImageAnswer)
        words = {hit["text"]: [word["text"] for word in hit["explanation"]["words"]] for hit in answer["results"]}
        assert words == {"green": ["<start>", "green", "<end>"], "\u200b": ["<start>", "?", "<end>"]}


def test_a_stored_picture_whose_file_is_sent_again_is_found_and_by_its_id_it_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    files = [encoded(noise(seed), "PNG") for seed in range(4)]
    ids = [store.accept(content) for content in files]
    store.drain()
    store.catalog.close()
    loaded = LoadedModels.of(FakeExtractor(), {"fake": FakeMatcher()}, views=["fake"])
    web = Web(Settings(data_dir=tmp_path, decode_workers=1), loaded)
    web.services.storage.catalog.processes.heartbeat("worker", web.services.clock())
    for content, own in zip(files, ids, strict=True):
        form: dict[str, Any] = {"target": (None, "images")}
        sent = checked(
            web.request("POST", "/search/image", files=form | {"image": ("again.png", content)}), 200, ImageAnswer
        )
        assert sent["results"][0]["image_id"] == own
        assert {hit["image_id"] for hit in sent["results"]} == set(ids)
        asked = checked(web.request("POST", "/search/image", files=form | {"image_id": (None, own)}), 200, ImageAnswer)
        assert {hit["image_id"] for hit in asked["results"]} == set(ids) - {own}
    web.close()


@pytest.mark.parametrize("full", ["queue", "decoders"])
def test_a_picture_that_is_refused_keeps_no_decoder_busy(api: Api, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    monkeypatch.setattr(api.services.pool, "submit", lambda *_: pytest.fail("it was decoded"))
    content = png(two_coloured("cyan", "red", 300, 220))
    with contextlib.ExitStack() as stack:
        if full == "queue":
            stack.enter_context(busy(api.services.capacity.accelerator))
            api.services.capacity.accelerator.enqueue(api.settings.queue_cost, lambda: None)
        else:
            for _ in range(api.settings.max_uploads):
                stack.enter_context(api.services.capacity.decoding.taken())
        told = problem(ask_with(api, content), 503, "overloaded")
    assert told["retry_after"] >= 1


def test_words_beside_a_picture_are_what_the_others_show_too(api: Api) -> None:
    def scores(own: str, **fields: Any) -> dict[str, float]:
        answer = checked(ask_with(api, None, target="images", k=64, image_id=own, **fields), 200, ImageAnswer)
        assert own not in {hit["image_id"] for hit in answer["results"]}
        return {hit["filename"]: hit["score"] for hit in answer["results"]}

    by_words = []
    for own in (image_id_of("green and magenta"), image_id_of("red and white")):
        like, besides = scores(own), scores(own, query="show me a photo of something blue")
        assert besides == scores(own, query="something blue, May 2021")
        assert besides != like == scores(own, query="")  # a form's empty field was not filled in
        assert "blue" in next(iter(besides))
        by_words.append({name: besides[name] - PICTURE_WEIGHT * like[name] for name in besides.keys() & like})
    assert len(by_words[0].keys() & by_words[1]) == 62
    assert all(
        by_words[0][name] == pytest.approx(by_words[1][name], abs=1e-5) for name in by_words[0].keys() & by_words[1]
    )


def test_the_answer_tells_the_words_beside_a_picture_and_how_they_were_read(api: Api) -> None:
    uploaded = ask_with(
        api, png(two_coloured("green", "magenta")), target="images", query="a tartan zebra not blue", k=3
    )
    answer = checked(uploaded, 200, ImageAnswer)
    assert (answer["query"], len(answer["results"])) == ("a tartan zebra not blue", 3)
    assert {"tartan", "zebra"} <= {*answer["unknown_words"], *answer["read_as"]}
    assert answer["note"] == "Pictures that show “blue” come later."
    assert set(answer["timings_ms"]) == {"detect", "encode", "shortlist", "rerank", "total"}
    plain = ask_with(api, png(two_coloured("green", "magenta")), target="images").json()
    assert plain.keys().isdisjoint({"query", "unknown_words", "read_as", "note"})
