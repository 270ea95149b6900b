"""Lists over HTTP: pictures filtered and sorted page by page, tags searched; all that is known of one picture."""

import json
from typing import Any

import pytest

from service.api.schemas.resources import (
    DatesAnswer,
    FailuresAnswer,
    ImageInfo,
    ImagesAnswer,
    IngestAnswer,
    RetryAnswer,
    TagsAnswer,
)
from service.dates import unix_seconds
from tests.support.catalogs import picture
from tests.support.library import NOW, image_id_of, two_coloured
from tests.support.web_app import Api, checked, png, problem

DATED = {"red": "2024-05-01", "green": "2023-12-31", "blue": None, "yellow": "2024-01-01", "cyan": "2024-06"}


@pytest.fixture
def dated(api: Api) -> Api:
    """The API over pictures with and without dates, all added at once."""
    for number, (colour, date) in enumerate(DATED.items()):
        tags: dict[str, Any] = {"year": date[:4] if number % 2 else int(date[:4])} if date else {}
        taken_at = None if date is None else unix_seconds(date)
        api.library.add(colour, two_coloured(colour, colour), tags=tags, taken_at=taken_at, added_at=NOW + number)
    return api


def names(api: Api, **query: Any) -> list[str]:
    """File names of all pages, without their ending."""
    found, after = list[str](), None
    while True:
        page = checked(api.get("/images", limit=2, **query, **({"after": after} if after else {})), 200, ImagesAnswer)
        found += [image["filename"].removesuffix(".png") for image in page["images"]]
        if (after := page["next"]) is None:
            return found


def test_pictures_are_sorted_over_all_pages(dated: Api) -> None:
    assert names(dated) == list(DATED)
    assert names(dated, sort="latest") == list(DATED)[::-1]
    assert names(dated, sort="date") == ["cyan", "red", "yellow", "green", "blue"]


def test_a_list_by_date_goes_on_where_it_was_though_its_last_picture_is_dated_anew(dated: Api) -> None:
    first = checked(dated.get("/images", sort="date", limit=2), 200, ImagesAnswer)
    last = first["images"][-1]["image_id"]
    for date in (None, "1990", "2030"):
        assert dated.request("PATCH", f"/images/{last}", json={"taken_at": date}).status_code == 200
        rest = checked(dated.get("/images", sort="date", after=first["next"], limit=3), 200, ImagesAnswer)
        assert [image["filename"] for image in rest["images"]][:2] == ["yellow.png", "green.png"]
    dated.request("PATCH", f"/images/{last}", json={"taken_at": None})
    undated = checked(dated.get("/images", sort="date", limit=4), 200, ImagesAnswer)["next"]
    dated.request("PATCH", f"/images/{undated.partition('@')[0]}", json={"taken_at": "2030"})
    assert len(checked(dated.get("/images", sort="date", after=undated), 200, ImagesAnswer)["images"]) == 1


@pytest.mark.parametrize("sort", ["arrival", "latest", "date"])
def test_a_list_goes_on_though_its_last_picture_is_erased_meanwhile(dated: Api, sort: str) -> None:
    whole = names(dated, sort=sort)
    first = checked(dated.get("/images", sort=sort, limit=2), 200, ImagesAnswer)
    catalog, last = dated.library.catalog, first["images"][-1]["image_id"]
    catalog.delete(last, 0.0)
    catalog.erasures.erase_deleted(1.0, 1.0, 10)
    catalog.erasures.forget(catalog.erasures.being_erased(10))
    rest = checked(dated.get("/images", sort=sort, after=first["next"]), 200, ImagesAnswer)
    assert [image["filename"].removesuffix(".png") for image in rest["images"]] == whole[2:]
    problem(dated.get("/images", sort=sort, after=last), 422, "invalid-request")


def test_the_first_page_says_how_many_pictures_there_are(dated: Api) -> None:
    catalog = dated.library.catalog
    catalog.take_in([picture("waits", tags={"year": 2024})], NOW)
    (gone,) = (image.image_id for image in catalog.list_images(None, 1))
    catalog.delete(gone, NOW)
    first = checked(dated.get("/images", limit=2), 200, ImagesAnswer)
    assert (first["total"], first["queued"]) == (5, 1)
    later = checked(dated.get("/images", limit=2, after=first["next"]), 200, ImagesAnswer)
    assert (later["total"], later["queued"]) == (None, None)
    of_2024 = checked(dated.get("/images", filter='{"tags": {"year": 2024}}'), 200, ImagesAnswer)
    assert (of_2024["total"], of_2024["queued"], len(of_2024["images"])) == (3, 1, 3)
    deleted = checked(dated.get("/images", deleted="true"), 200, ImagesAnswer)
    assert (deleted["total"], deleted["queued"]) == (1, 0)
    catalog.restore(gone, 0.0)
    assert checked(dated.get("/images", limit=1), 200, ImagesAnswer)["total"] == 6


@pytest.mark.parametrize("end", ["@x", "@nan", "@inf", "@1e999", "~x", "~nan"])
def test_a_place_that_is_none_is_refused(dated: Api, end: str) -> None:
    first = checked(dated.get("/images", limit=1), 200, ImagesAnswer)
    problem(dated.get("/images", sort="date", after=first["next"] + end), 422, "invalid-request")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('{"taken_at": "2024"}', ["red", "yellow", "cyan"]),
        ('{"taken_at": "2024-01"}', ["yellow"]),
        ('{"taken_at": {"lte": "2023"}}', ["green"]),
        ('{"taken_at": {"gte": "2024-01-01", "lte": "2024-05-01"}}', ["red", "yellow"]),
        ('{"tags": {"year": 2024}}', ["red", "yellow", "cyan"]),
        ('{"tags": {"year": "2024"}}', ["red", "yellow", "cyan"]),
        ('{"tags": {"year": {"lte": 2023}}}', ["green"]),
    ],
)
def test_a_filter_means_what_a_person_means(dated: Api, condition: str, expected: list[str]) -> None:
    assert names(dated, filter=condition) == expected


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("{", "filter"),
        ('{"tag": 1}', "filter.tag"),
        ('{"taken_at": "yesterday"}', "filter.taken_at"),
        ('{"taken_at": {"gte": 2024}}', "filter.taken_at.gte"),
    ],
)
def test_a_wrong_filter_is_named(dated: Api, given: str, field: str) -> None:
    found = problem(dated.get("/images", filter=given), 422, "invalid-request")
    assert [error["field"] for error in found["errors"]] == [field]
    assert problem(dated.get("/images", sort="size"), 422, "invalid-request")["errors"][0]["field"] == "sort"


def test_months_are_listed_with_the_number_of_their_pictures_the_latest_first(api: Api) -> None:
    assert checked(api.get("/dates"), 200, DatesAnswer) == {"months": [], "undated": 0}
    dates = [
        "1969-07-20",
        "2024-05-01",
        "2024-05-31T23:59:59Z",
        "2023-12-31T23:59:59.9999Z",
        "2024-01-01T00:00:00Z",
        None,
    ]
    for number, date in enumerate(dates):
        taken_at = None if date is None else unix_seconds(date)
        api.library.add(f"p{number}", two_coloured("red", "red"), taken_at=taken_at)
    months = {"2024-05": 2, "2024-01": 1, "2023-12": 1, "1969-07": 1}
    answer = checked(api.get("/dates"), 200, DatesAnswer)
    assert answer == {"months": [{"month": m, "pictures": n} for m, n in months.items()], "undated": 1}
    for month, pictures in months.items():
        assert api.get("/images", filter=json.dumps({"taken_at": month})).json()["total"] == pictures
    assert api.request("DELETE", f"/images/{image_id_of('p0')}").status_code in (200, 204)
    assert "1969-07" not in {one["month"] for one in api.get("/dates").json()["months"]}


def test_tags_are_searched_and_listed_page_by_page(api: Api) -> None:
    for number in range(5):
        tags: dict[str, str | int | float] = {
            f"tag {number}": "x",
            "place": ["Oslo", "Bergen", "Ös"][number % 3],
            "number": 7,
        }
        api.library.add(f"p{number}", two_coloured("red", "red"), tags=tags)
    found, after = list[str](), ""
    while True:
        page = checked(api.get("/tags", limit=2, after=after), 200, TagsAnswer)
        found += [tag["name"] for tag in page["tags"]]
        if (after := page["next"]) is None:
            break
    assert found == ["number", "place", *(f"tag {number}" for number in range(5))]
    for search in ("os", "ÖS", "ös"):
        (place,) = checked(api.get("/tags", search=search), 200, TagsAnswer)["tags"]
        assert [(one["value"], one["pictures"]) for one in place["values"]] == [("Oslo", 2), ("Ös", 1)]
    assert [tag["name"] for tag in checked(api.get("/tags", search="7"), 200, TagsAnswer)["tags"]] == ["number"]
    (whole,) = checked(api.get("/tags", search="PLACE", values=1), 200, TagsAnswer)["tags"]
    assert (whole["pictures"], whole["distinct_values"], len(whole["values"])) == (5, 3, 1)


def set_aside(api: Api) -> tuple[str, str]:
    """The ids of a picture that can be read and of one that was set aside."""
    cut = png(two_coloured("cyan", "cyan", 640, 480))[:-200]
    files = [("images", ("good.png", png(two_coloured("red", "red")))), ("images", ("cut.png", cut))]
    accepted = checked(api.request("POST", "/ingest", files=files), 202, IngestAnswer)["accepted"]
    api.library.work(api.services.storage.originals, api.services.pool)
    return accepted[0]["image_id"], accepted[1]["image_id"]


def test_all_that_is_known_of_a_picture_is_told(api: Api) -> None:
    good, cut = set_aside(api)
    known = checked(api.get(f"/images/{good}/info"), 200, ImageInfo)
    assert (known["state"], known["kind"], known["filename"], known["failure"]) == ("ready", "png", "good.png", None)
    assert [region["label"] for region in known["regions"]] == ["picture", "left", "right", "centre"]
    failed = checked(api.get(f"/images/{cut}/info"), 200, ImageInfo)
    assert (failed["state"], failed["regions"], failed["failure"]["filename"]) == ("failed", None, "cut.png")
    api.request("DELETE", f"/images/{good}")
    problem(api.get(f"/images/{good}/info"), 404, "not-found")


def test_a_picture_that_was_set_aside_is_tried_again(api: Api) -> None:
    good, cut = set_aside(api)
    answer = api.request("POST", f"/failures/{cut}/retry")
    job = checked(answer, 202, RetryAnswer)
    assert answer.headers["location"] == job["status_url"]
    assert api.times_woken == 2
    assert api.get(job["status_url"]).json()["state"] == "queued"
    assert api.get("/failures").json() == {"failures": [], "next": None}
    api.library.work(api.services.storage.originals, api.services.pool)
    told = api.get(job["status_url"]).json()
    assert (told["state"], told["total"], told["failed"]) == ("done", 1, 1)
    for unknown in (good, "0" * 32):
        problem(api.request("POST", f"/failures/{unknown}/retry"), 404, "not-found")


def test_pictures_set_aside_are_listed_page_by_page(api: Api) -> None:
    cut = [png(two_coloured("cyan", "red", 640, 480 + number))[:-200] for number in range(5)]
    files = [("images", (f"cut-{number}.png", content)) for number, content in enumerate(cut)]
    checked(api.request("POST", "/ingest", files=files), 202, IngestAnswer)
    api.library.work(api.services.storage.originals, api.services.pool)
    whole = checked(api.get("/failures"), 200, FailuresAnswer)
    assert (len(whole["failures"]), whole["next"]) == (5, None)
    found, after = list[Any](), dict[str, Any]()
    for size in (2, 2, 1):
        page = checked(api.get("/failures", limit=2, **after), 200, FailuresAnswer)
        assert len(page["failures"]) == size
        found += page["failures"]
        after = {"after": page["next"]}
    assert (found, page["next"]) == (whole["failures"], None)
    first = api.get("/failures", limit=2).json()
    for one in first["failures"]:  # whoever tries again what a page shows goes on behind it
        checked(api.request("POST", f"/failures/{one['image_id']}/retry"), 202, RetryAnswer)
    assert api.get("/failures", after=first["next"]).json()["failures"] == whole["failures"][2:]
    for wrong in ("0" * 32, "0" * 32 + "@nan", "@"):
        problem(api.get("/failures", after=wrong), 422, "invalid-request")
    problem(api.get("/failures", limit=1001), 422, "invalid-request")


def test_a_job_is_followed_to_its_end(api: Api) -> None:
    files = [("images", ("red.png", png(two_coloured("red", "red"))))]
    job_id = checked(api.request("POST", "/ingest", files=files), 202, IngestAnswer)["job_id"]
    api.library.work(api.services.storage.originals, api.services.pool)
    followed = api.get(f"/jobs/{job_id}/events")
    assert followed.headers["content-type"].startswith("text/event-stream")
    assert followed.text.count("event: progress") == 1
    assert '"state": "done"' in followed.text
    assert followed.text.count("id: done\n") == 1
    again = api.request("GET", f"/jobs/{job_id}/events", headers={"last-event-id": "done"})
    assert (again.status_code, again.content) == (204, b"")  # an EventSource that reconnects stops
    problem(api.get("/jobs/nothing/events"), 404, "not-found")


def test_a_shipped_model_that_is_not_loaded_is_answered_with_how_to_load_it(api: Api) -> None:
    refused = problem(api.text("red", model="bfan-prob"), 404, "unknown-model")
    assert "comes with Regard but is not served here" in refused["detail"]
    assert "REGARD_MODELS=" in refused["detail"]
    assert "comes with" not in problem(api.text("red", model="nothing"), 404, "unknown-model")["detail"]
