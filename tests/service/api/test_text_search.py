"""Searching over HTTP: what comes back, what is refused and how, the cache, many at once, and hanging up."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.matching.calibration import Calibration
from models.matching.log_odds import LogOddsModel
from models.single_threads import usual_threads
from service.api.schemas.resources import ModelsAnswer
from service.api.schemas.results import TextAnswer
from tests.support.busy_accelerator import PATIENCE_S, busy
from tests.support.fakes import FakeMatcher
from tests.support.library import Library, sixty_four, two_coloured
from tests.support.web_app import Api, checked, problem, served


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(sixty_four(tmp_path_factory.mktemp("data"))) as api:
        yield api


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Api]:
    """A store that a test fills itself, with a second model that has no view."""
    with served(Library(tmp_path, others=[FakeMatcher("other", "other-digest")])) as api:
        yield api


def test_an_answer_says_which_words_were_read_as_others(changing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(changing.text("red"), 200, TextAnswer)["read_as"] == {}
    monkeypatch.setattr(FakeMatcher, "read_as", lambda self, sentence: {"redd": "red", "a": "<unk>"})
    assert checked(changing.text("a redd wall"), 200, TextAnswer)["read_as"] == {"redd": "red"}


def test_an_answer_says_how_a_question_was_read(changing: Api) -> None:
    assert "note" not in checked(changing.text("red"), 200, TextAnswer)
    assert "that show “cyan” come later" in checked(changing.text("red without cyan"), 200, TextAnswer)["note"]
    assert "“never” is hardly understood" in checked(changing.text("red never cyan"), 200, TextAnswer)["note"]
    assert "“red on the table”" in checked(changing.text("rot auf dem Tisch"), 200, TextAnswer)["note"]
    assert "note" not in checked(changing.text("rot auf dem Tisch", match="text"), 200, TextAnswer)


def test_a_sentence_brings_its_pictures(api: Api) -> None:
    answer = checked(api.text("  cyan beside yellow ", k=2), 200, TextAnswer)
    assert {hit["filename"] for hit in answer["results"]} == {"cyan and yellow.png", "yellow and cyan.png"}
    assert [hit["rank"] for hit in answer["results"]] == [1, 2]
    assert answer["query"] == "cyan beside yellow"
    assert answer["unknown_words"] == ["beside"]
    assert (answer["model"], answer["model_digest"], answer["k"], answer["shortlist"]) == (
        "fake",
        "fake-matcher",
        2,
        100,
    )
    hit = answer["results"][0]
    assert hit["url"] == f"/images/{hit['image_id']}"
    assert hit["probability"] is None
    assert "explanation" not in hit
    assert set(answer["timings_ms"]) == {"encode", "shortlist", "rerank", "text", "total"}
    assert answer["timings_ms"]["total"] >= answer["timings_ms"]["rerank"] > 0


def test_an_explanation_comes_when_asked_for(api: Api) -> None:
    answer = checked(api.text("red", explain=True, k=3), 200, TextAnswer)
    assert len(answer["results"]) == 3
    for hit in answer["results"]:
        why = hit["explanation"]
        assert why["kind"] == "words attend regions"
        assert (len(why["words"]), len(why["regions"])) == (3, 4)
        assert sum(why["contributions"]) == pytest.approx(hit["score"], abs=1e-6)
        assert why["words"][0] == {"text": "<start>", "special": True, "content": False}
        assert len(why["attention"]) == len(why["words"])
        assert {len(row) for row in why["attention"]} == {len(why["regions"])}
        assert [sum(row) for row in why["shares"]] == pytest.approx(why["contributions"], abs=1e-6)
        assert {len(row) for row in why["shares"]} == {len(why["regions"])}
        assert why["word_weights"] is None
        assert all(0 <= x1 < x2 <= hit["width"] for x1, _, x2, _ in (region["box"] for region in why["regions"]))


def test_a_calibrated_model_says_how_likely_and_when_nothing_is(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    meaning = Calibration(text=LogOddsModel(8.0, -2.0), image=LogOddsModel(6.0, -1.0))
    (served,) = api.services.models
    monkeypatch.setattr(served.matcher, "calibration", meaning)
    monkeypatch.setattr(served.matcher, "digest", "calibrated")
    (listed,) = checked(api.get("/models"), 200, ModelsAnswer)["models"]
    assert listed["calibrated"] is True
    answer = checked(api.text("red and blue", k=3), 200, TextAnswer)
    likely = [hit["probability"] for hit in answer["results"]]
    assert likely == sorted(likely, reverse=True)
    assert all(0 < one < 1 for one in likely)
    assert answer["left_out"] == 0
    none = checked(api.text("red and blue", k=3, min_probability=0.999), 200, TextAnswer)
    assert (none["results"], none["left_out"]) == ([], 64)


def test_filters_cut_offs_and_dates_work_together(api: Api) -> None:
    wanted = {"tags": {"left": ["red", "blue"], "number": {"gte": 5}}, "taken_at": {"lte": "2023-11-14T22:13:20Z"}}
    answer = checked(api.text("red", k=50, sort="date", filter=wanted), 200, TextAnswer)
    assert answer["results"]
    assert all(hit["tags"]["left"] in {"red", "blue"} and hit["tags"]["number"] >= 5 for hit in answer["results"])
    times = [hit["taken_at"] for hit in answer["results"]]
    assert None not in times
    assert times == sorted(times, reverse=True)
    high = checked(api.text("red", min_score=99), 200, TextAnswer)
    assert (high["results"], high["left_out"]) == ([], 64)


def test_the_shortlist_grows_with_the_results_that_are_asked_for(api: Api) -> None:
    for asked, shortlist in ({"k": 3}, 100), ({"k": 150}, 150), ({"k": 3, "shortlist": 7}, 7):
        assert checked(api.text("red", **asked), 200, TextAnswer)["shortlist"] == shortlist


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"query": "   "}, "query", "is blank; write what the picture shows"),
        ({"query": "x" * 513}, "query", "has 513 characters"),
        ({"query": "\ufdfa" * 512}, "query", "stands for 9216 characters"),
        ({"query": "a " * 200}, "query", "takes 202 of the 192 places"),
        ({"query": 5}, "query", "string"),
        ({}, "query", "is missing"),
        ({"query": "x", "k": 0}, "k", "at least 1"),
        ({"query": "x", "k": 1001}, "k", "at most 1000"),
        ({"query": "x", "k": 101, "explain": True}, "explain", "at most 100 results are explained"),
        ({"query": "x", "k": 20, "shortlist": 10}, "shortlist", "at least k, which is 20"),
        ({"query": "x", "shortlist": 1001}, "shortlist", "at most 1000"),
        ({"query": "x", "shortlst": 100}, "shortlst", "is not a field"),
        ({"query": "x", "sort": "size"}, "sort", "'relevance' or 'date'"),
        ({"query": "x", "min_probability": 0.5}, "min_probability", "no calibration"),
        ({"query": "x", "min_probability": 1.5}, "min_probability", "at most 1"),
        ({"query": "x", "filter": {"tags": {"a": {}}}}, "filter.tags.a", "a range such as"),
        ({"query": "x", "filter": {"tags": {"a": True}}}, "filter.tags.a", "give a string, a number"),
        ({"query": "x", "filter": {"tags": {"a": {"gte": 1, "lte": "b"}}}}, "filter", "range"),
        ({"query": "x", "filter": {"taken_at": {"gte": "2024-01-01T00:00:00"}}}, "filter.taken_at.gte", "timezone"),
        ({"query": "x", "filter": {"taken_at": {"gte": 2024}}}, "filter.taken_at.gte", 'write dates as text: "2024"'),
        ({"query": "x", "filter": {"taken_at": 2024}}, "filter.taken_at", "write dates as text"),
        ({"query": "x", "filter": {"taken_at": "yesterday"}}, "filter.taken_at", "timezone"),
        ({"query": "x", "filter": {"colour": "red"}}, "filter.colour", "is not a field"),
        ({"query": "x", "filter": {"tags": {"a": []}}}, "filter.tags.a", "a list of 1 to 1000"),
        ({"query": "x", "k": True}, "k", "an integer"),
        ({"query": "x", "k": "5"}, "k", "an integer"),
        ({"query": "x", "shortlist": "100"}, "shortlist", "an integer"),
        ({"query": "x", "min_score": "1"}, "min_score", "a number"),
        ({"query": "x", "min_score": True}, "min_score", "a number"),
        ({"query": "x", "min_probability": "0.5"}, "min_probability", "a number"),
        ({"query": "x", "explain": 1}, "explain", "a boolean"),
        ({"query": "x", "explain": "true"}, "explain", "a boolean"),
    ],
)
def test_a_wrong_field_is_named_with_what_to_do(api: Api, body: dict[str, Any], field: str, words: str) -> None:
    answer = problem(api.request("POST", "/search/text", json=body), 422, "invalid-request")
    assert [error["field"] for error in answer["errors"]] == [field]
    assert words in answer["errors"][0]["problem"]
    assert words in answer["detail"]


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"{", 422, "is not JSON"),
        (b"", 422, "is missing; send a JSON object"),
        (b"[]", 422, "body: must be a JSON object, sent with Content-Type application/json"),
        (b'{"query": "x", "min_score": NaN}', 422, "finite"),
        (b'{"query": "\\ud800"}', 422, "query"),
        (b"\xff", 400, "body"),
        (b"[" * 100_000, 400, "body"),
    ],
)
def test_a_body_that_is_no_request_is_refused_in_words(api: Api, content: bytes, status: int, words: str) -> None:
    headers = {"content-type": "application/json"}
    answer = api.request("POST", "/search/text", content=content, headers=headers)
    assert words in problem(answer, status, "invalid-request" if status == 422 else "bad-request")["detail"]


def test_json_without_its_content_type_is_told_what_to_send(api: Api) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d sends it
    answer = api.request("POST", "/search/text", content=b'{"query": "red"}', headers=headers)
    assert "sent with Content-Type application/json" in problem(answer, 422, "invalid-request")["detail"]


@pytest.mark.parametrize("query", ["red\x00blue", "🐕 🟥", "r" * 512, "é" * 512, "a " * 150 + "red", "' OR 1=1 --"])
def test_odd_queries_are_just_queries(api: Api, query: str) -> None:
    assert checked(api.text(query), 200, TextAnswer)["query"] == query.strip()


def test_a_body_without_end_is_cut(api: Api) -> None:
    headers = {"content-type": "application/json"}
    answer = api.request("POST", "/search/text", content=b" " * (2**20 + 1), headers=headers)
    problem(answer, 413, "too-large")


def test_models_are_known_by_name(changing: Api) -> None:
    answer = problem(changing.text("red", model="scam"), 404, "unknown-model")
    assert answer["known"] == ["fake", "other"]
    assert checked(changing.text("red"), 200, TextAnswer)["results"] == []
    changing.library.add("red", two_coloured("red", "red"))
    answer = problem(changing.text("red", model="other"), 409, "view-not-built")
    assert answer["build"]["state"] == "not built"
    assert len(checked(changing.text("red", model="fake"), 200, TextAnswer)["results"]) == 1


def test_an_answer_is_kept_until_something_changes(changing: Api) -> None:
    changing.library.add("red", two_coloured("red", "red"))
    first = checked(changing.text("red"), 200, TextAnswer)
    again = checked(changing.text(" red "), 200, TextAnswer)
    assert (first["cached"], again["cached"]) == (False, True)
    assert again["results"] == first["results"]
    assert checked(changing.text("red", k=9), 200, TextAnswer)["cached"] is False
    changing.library.add("blue", two_coloured("blue", "blue"))
    renewed = checked(changing.text("red"), 200, TextAnswer)
    assert renewed["cached"] is False
    assert len(renewed["results"]) == 2
    assert renewed["index_version"] != first["index_version"]


def test_many_at_once_each_get_their_own_answer(api: Api) -> None:
    names = [f"{left} {right}" for left in ("red", "green", "blue", "cyan") for right in ("white", "black", "red")]

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        asking = [client.post("/search/text", json={"query": name, "k": 3, "explain": True}) for name in names * 3]
        return await asyncio.gather(*asking)

    for name, answer in zip(names * 3, api.together(ask), strict=True):
        assert checked(answer, 200, TextAnswer)["query"] == name
        left, right = name.split()
        assert answer.json()["results"][0]["filename"] in {f"{left} and {right}.png", f"{right} and {left}.png"}


def test_too_much_waiting_is_refused_with_a_time_to_come_back(api: Api) -> None:
    with busy(api.services.capacity.accelerator):
        waiting = api.services.capacity.accelerator.enqueue(api.settings.queue_cost, lambda: None)
        answer = api.text("overload")
    waiting.result(10)
    assert problem(answer, 503, "overloaded")["retry_after"] >= 1
    assert int(answer.headers["retry-after"]) >= 1
    assert api.text("overload").status_code == 200


def test_a_fault_inside_is_a_500_that_gives_nothing_away(changing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    changing.library.add("red", two_coloured("red", "red"))

    def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(changing.library.matcher, "score", fail)
    answer = problem(changing.text("red"), 500, "internal-error")
    assert "secret" not in json.dumps(answer)
    monkeypatch.undo()
    assert changing.text("red").status_code == 200


def hanging_up(api: Api, is_time: Callable[[], bool]) -> Callable[[httpx.AsyncClient], Awaitable[None]]:
    """A caller who asks with a sentence and hangs up when it is time."""
    body = json.dumps({"query": "red black nobody listens"}).encode()  # neither answer nor encoding was kept

    async def hang_up(_: httpx.AsyncClient) -> None:
        request = {"type": "http.request", "body": body, "more_body": False}
        messages: list[dict[str, Any]] = [request, {"type": "http.disconnect"}]

        async def receive() -> dict[str, Any]:
            while len(messages) == 1 and not is_time():
                await asyncio.sleep(0.001)
            return messages.pop(0)

        async def send(message: Any) -> None:
            pass

        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/search/text",
            "headers": headers,
            "query_string": b"",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("regard", 80),
            "asgi": {"version": "3.0"},
        }
        await api.app(scope, receive, send)

    return hang_up


def test_a_caller_who_hangs_up_is_not_worked_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator, worked = api.services.capacity.accelerator, list[object]()
    monkeypatch.setattr(accelerator, "_light_cost", None)
    with busy(accelerator):
        monkeypatch.setattr(api.library.matcher, "encode_sentences", worked.append)
        api.together(hanging_up(api, lambda: accelerator.num_waiting > 0))
        assert accelerator.admitted_cost == 0
    accelerator.enqueue(0, lambda: None).result(PATIENCE_S)
    assert not worked


def test_light_work_for_a_caller_who_hung_up_ends_with_the_part_that_runs(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator, matcher, encode = (
        api.services.capacity.accelerator,
        api.library.matcher,
        api.library.matcher.encode_sentences,
    )
    begun, go, scored, score = threading.Event(), threading.Event(), list[object](), matcher.score

    def is_of_the_search() -> bool:
        return threading.current_thread().name.startswith("light")  # others measure what a pair costs

    def wait(sentences: Sequence[str]) -> Any:
        if is_of_the_search():
            begun.set()
            assert go.wait(PATIENCE_S)
        return encode(sentences)

    def note(*given: Any) -> Any:
        if is_of_the_search():
            scored.append(given)
        return score(*given)

    monkeypatch.setattr(accelerator, "_light_cost", 10**9)
    monkeypatch.setattr(matcher, "encode_sentences", wait)
    monkeypatch.setattr(matcher, "score", note)
    api.together(hanging_up(api, begun.is_set))
    assert accelerator.admitted_cost > 0  # what runs counts as long as it runs
    go.set()
    for _ in range(1000):
        if not accelerator.admitted_cost:
            break
        time.sleep(0.01)
    assert accelerator.admitted_cost == 0
    assert not scored


def test_a_caller_who_hangs_up_before_his_turn_is_never_begun(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator, threads = api.services.capacity.accelerator, api.services.capacity.threads.light
    go, begun = threading.Event(), list[object]()
    held = [threads.submit(go.wait) for _ in range(usual_threads())]
    monkeypatch.setattr(api.services.collection.search, "begin", begun.append)
    api.together(hanging_up(api, lambda: accelerator.admitted_cost > 0))
    assert accelerator.admitted_cost == 0
    go.set()
    assert all(one.result(PATIENCE_S) for one in held)
    for _ in range(usual_threads()):
        threads.submit(lambda: None).result(PATIENCE_S)  # after whatever waited
    assert not begun


@pytest.mark.parametrize(
    "tags",
    [
        '{"\\ud800": 1}',
        '{"a": "\\udfff"}',
        '{"a": ["b", "\\ud800"]}',
        '{"a": {"gte": "\\ud800"}}',
        '{"\\ud800\\ud800": "\\udc00\\ud800"}',
    ],
)
def test_half_a_surrogate_pair_is_refused_in_words(api: Api, tags: str) -> None:
    body = f'{{"query": "x", "filter": {{"tags": {tags}}}}}'.encode()
    headers = {"content-type": "application/json"}
    problem(api.request("POST", "/search/text", content=body, headers=headers), 422, "invalid-request")
    form = {"image_id": (None, "0" * 32), "filter": (None, f'{{"tags": {tags}}}')}
    problem(api.request("POST", "/search/image", files=form), 422, "invalid-request")
    wrong = problem(
        api.request("POST", "/search/text", content=b'{"query": "\\ud800"}', headers=headers), 422, "invalid-request"
    )
    assert wrong["detail"].startswith("query: holds half a surrogate pair")
    whole = body.replace(tags.encode(), b'{"a": "\\ud83d\\udc15"}')
    checked(api.request("POST", "/search/text", content=whole, headers=headers), 200, TextAnswer)


def test_a_sentence_without_a_word_is_refused_before_it_waits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_words(matcher: FakeMatcher, sentence: str) -> list[str]:
        raise ValueError("there is no word in it")

    monkeypatch.setattr(FakeMatcher, "words", no_words)
    with busy(api.services.capacity.accelerator):
        assert "no word" in problem(api.text("!!"), 422, "invalid-request")["detail"]


def test_under_load_what_was_kept_is_given_again_and_what_is_new_is_refused(api: Api) -> None:
    assert checked(api.text("red"), 200, TextAnswer)["cached"] is False
    with api.services.capacity.accelerator.admit(api.services.settings.queue_cost):
        assert checked(api.text("red"), 200, TextAnswer)["cached"] is True
        refused = api.text("blue")
        problem(refused, 503, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        problem(api.text("red", model="unheard-of"), 404, "unknown-model")
    assert checked(api.text("blue"), 200, TextAnswer)["cached"] is False
