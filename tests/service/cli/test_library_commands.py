"""Commands that tell what a service holds: list, info, tags, failures, jobs."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from regard_client import Client, Picture
from service.cli.commands import jobs
from service.storage.originals import Originals
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.running_server import running_server

TO_THE_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DATES = {"red": "2024-05-01", "green": "2023-12-31", "blue": None, "yellow": "2024-01-01T10:00:00Z", "cyan": "2024-06"}


def png(folder: Path, colour: str) -> Path:
    path = folder / f"{colour}.png"
    two_coloured(colour, colour).save(path)
    return path


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with five pictures, four of them with a date and a year."""
    folder = tmp_path_factory.mktemp("photos")
    with running_server(tmp_path_factory.mktemp("data")) as address:
        with Client(address) as client:
            for colour, date in DATES.items():
                tags: dict[str, str | int] = {} if date is None else {"year": int(date[:4]), "colour": colour}
                answer = client.ingest([Picture(png(folder, colour), tags=tags, taken_at=date)])
                assert client.wait(answer["job_id"])["done"] == 1
        yield address


def listed(regard: Regard, url: str, *options: object) -> list[str]:
    """Names of the pictures in the table, without their ending."""
    status, said, _ = regard("list", "--url", url, *options)
    assert status == 0
    return [word.removesuffix(".png") for line in said.splitlines() for word in line.split() if word.endswith(".png")]


def test_pictures_are_listed_with_what_is_known_of_them(regard: Regard, url: str) -> None:
    _, said, _ = regard("list", "--url", url)
    head, *rows = said.splitlines()
    assert head.split() == ["id", "name", "date", "tags", "state"]
    assert rows[0].split() == [rows[0][:32], "red.png", "2024-05-01", "colour=red,", "year=2024", "ready"]
    assert rows[2].split()[1:] == ["blue.png", "ready"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["red", "green", "blue", "yellow", "cyan"]),
        (["--sort", "latest"], ["cyan", "yellow", "blue", "green", "red"]),
        (["--sort", "date"], ["cyan", "red", "yellow", "green", "blue"]),
        (["--date", "2024"], ["red", "yellow", "cyan"]),
        (["--date", "2024-01-01"], ["yellow"]),
        (["--since", "2024-05"], ["red", "cyan"]),
        (["--until", "2024-01"], ["green", "yellow"]),
        (["--since", "2023", "--until", "2023"], ["green"]),
        (["--tag", "year=2024"], ["red", "yellow", "cyan"]),
        (["--tag", "year=2023", "--tag", "year=2024", "--sort", "date"], ["cyan", "red", "yellow", "green"]),
        (["--tag", "year=2024", "--tag", "colour=red"], ["red"]),
        (["--limit", "2"], ["red", "green"]),
        (["--tag", "year=1999"], []),
        (["--tag", "year>=2024"], ["red", "yellow", "cyan"]),
        (["--tag", "year<=2023"], ["green"]),
        (["--tag", "year>=2023.5", "--tag", "year<=2024"], ["red", "yellow", "cyan"]),
        (["--tag", "colour>=red"], ["red", "yellow"]),
        (["--tag", "year<=2024", "--tag", "colour=green"], ["green"]),
    ],
)
def test_lists_are_filtered_sorted_and_cut(regard: Regard, url: str, options: list[str], expected: list[str]) -> None:
    assert listed(regard, url, *options) == expected


def test_what_was_deleted_is_listed_apart(regard: Regard, url: str) -> None:
    before = listed(regard, url)
    with Client(url) as client:
        (red,) = [one["image_id"] for one in client.images() if one["filename"].startswith("red")]
        client.delete(red)
        try:
            assert listed(regard, url, "--deleted", "--all") == ["red"]
            assert listed(regard, url) == [name for name in before if name != "red"]
            head, line = regard("list", "--deleted", "--url", url)[1].splitlines()
            assert head.split()[-1] == "deleted"
            assert TO_THE_SECOND.fullmatch(line.split()[-1])
            assert datetime.fromisoformat(line.split()[-1])
        finally:
            client.restore(red)
    assert regard("list", "--deleted", "--url", url)[1] == "no deleted pictures can be brought back\n"


def test_a_list_comes_page_by_page_or_whole(regard: Regard, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, after = list[str](), list[str]()
    while True:
        _, said, noted = regard("list", "--url", url, "--limit", 2, "--sort", "date", *after)
        found += [line.split()[1] for line in said.splitlines()[1:]]
        if not noted:
            break
        if not after:
            assert noted.endswith("or --all (2 of 5 pictures are shown)\n")
        after = noted.removeprefix("there are more: add ").partition(",")[0].split()
    assert found == ["cyan.png", "red.png", "yellow.png", "green.png", "blue.png"]
    monkeypatch.setattr("service.cli.commands.list_pictures.LARGEST_PAGE", 2)
    document = json.loads(regard("list", "--url", url, "--all", "--sort", "date", "--json")[1])
    assert [image["filename"] for image in document["images"]] == found
    assert (document["next"], document["total"]) == (None, 5)
    assert json.loads(regard("list", "--url", url, "--limit", 1, "--json")[1])["next"] is not None


def test_an_empty_list_says_so(regard: Regard, url: str, tmp_path: Path) -> None:
    assert regard("list", "--url", url, "--date", "1999")[1] == "no pictures match\n"
    with running_server(tmp_path) as empty:
        assert regard("list", "--url", empty)[1] == "no pictures\n"
        assert regard("tags", "--url", empty)[1] == "no tags\n"
        assert regard("failures", "--url", empty)[1] == "no picture was set aside\n"
        assert regard("failures", "--retry-all", "--url", empty)[:2] == (0, "no picture was set aside\n")
        assert regard("jobs", "--url", empty)[1] == "nothing was taken in yet\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--date", "yesterday"], "--date 'yesterday': must be a year"),
        (["--since", "2024-13"], "--since '2024-13': month must be in 1..12"),
        (["--date", "2024", "--until", "2025"], "give it, or --since and --until"),
        (["--since", "2024", "--until", "2023-06"], "no time is from 2024 on (--since) and until 2023-06 (--until)"),
        (["--tag", "year"], "--tag takes NAME=VALUE, not 'year'"),
        (["--tag", "year="], "--tag takes NAME=VALUE"),
        (["--tag", "year>2024"], "--tag takes NAME=VALUE, not 'year>2024'"),
        (["--tag", "year>=2020", "--tag", "year>=2024"], "gives two limits >= for 'year'"),
        (["--tag", "year=2024", "--tag", "year>=2020"], "gives values and a range for 'year'"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(regard: Regard, options: list[str], words: str) -> None:
    status, _, noted = regard("list", *options)
    assert status == 2
    assert words in noted


def test_one_picture_is_told_whole(regard: Regard, url: str) -> None:
    image_id = json.loads(regard("list", "--url", url, "--limit", 1, "--json")[1])["images"][0]["image_id"]
    _, said, _ = regard("info", image_id, "--url", url)
    told = [line.split(maxsplit=1) for line in said.splitlines()]
    assert ["name", "red.png"] in told
    assert ["state", "ready"] in told
    assert ["tag", "year=2024"] in told
    assert ["taken", "2024-05-01T00:00:00Z"] in told
    assert ["picture", f"{url}/images/{image_id}"] in told
    assert ["left", "0.75        0, 0, 20, 20"] in told
    document = json.loads(regard("info", image_id, "--url", url, "--json")[1])
    assert (document["image_id"], len(document["regions"])) == (image_id, 4)
    status, _, noted = regard("info", "0" * 32, "--url", url)
    assert (status, noted) == (1, f"regard: There is no picture {'0' * 32}.\n")


def test_tags_are_bounded_and_searched(regard: Regard, url: str) -> None:
    _, said, noted = regard("tags", "--url", url, "--values", 2)
    assert [line.split() for line in said.splitlines()[1:]] == [
        ["colour", "4", "cyan", "(1),", "green", "(1),", "and", "2", "more"],
        ["year", "4", "2024", "(3),", "2023", "(1)"],
    ]
    assert noted == ""
    assert regard("tags", "YELL", "--url", url)[1].splitlines()[1].split() == ["colour", "1", "yellow", "(1)"]
    assert regard("tags", "nothing", "--url", url)[1] == "no tag contains 'nothing'\n"
    _, said, noted = regard("tags", "--url", url, "--limit", 1)
    assert len(said.splitlines()) == 2
    assert "--after 'colour'" in noted
    assert [
        tag["name"] for tag in json.loads(regard("tags", "--url", url, "--after", "colour", "--json")[1])["tags"]
    ] == ["year"]


def test_jobs_are_listed_and_told(regard: Regard, url: str) -> None:
    _, said, _ = regard("jobs", "--url", url, "--limit", 2)
    head, *rows = said.splitlines()
    assert head.split() == ["job", "id", "created", "at", "state", "total", "done", "failed"]
    assert [row.split()[2:] for row in rows] == [["done", "1", "1", "0"]] * 2
    assert all(TO_THE_SECOND.fullmatch(row.split()[1]) for row in rows)
    documents = json.loads(regard("jobs", "--url", url, "--json")[1])["jobs"]
    assert len(documents) == len(DATES)
    assert [one["created_at"] for one in documents] == sorted((one["created_at"] for one in documents), reverse=True)
    one = documents[0]["job_id"]
    assert json.loads(regard("jobs", one, "--url", url, "--json")[1])["jobs"][0]["state"] == "done"
    assert regard("jobs", "nope", "--url", url)[0] == 1


def test_all_jobs_are_listed_page_by_page(regard: Regard, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(regard("jobs", "--url", url, "--json")[1])["jobs"]
    monkeypatch.setattr(jobs, "JOBS_A_PAGE", 2)
    assert json.loads(regard("jobs", "--url", url, "--json")[1])["jobs"] == whole
    assert json.loads(regard("jobs", "--url", url, "--json", "--limit", 3)[1])["jobs"] == whole[:3]


def test_what_was_set_aside_is_listed_and_tried_again(regard: Regard, tmp_path: Path) -> None:
    whole = png(tmp_path, "red").read_bytes()
    paths = [tmp_path / "cut.png", tmp_path / "short.png"]
    for number, path in enumerate(paths):
        path.write_bytes(whole[: 50 + 5 * number])
    with running_server(tmp_path / "data") as url:
        assert regard("ingest", *paths, "--url", url)[0] == 1
        status, said, _ = regard("failures", "--url", url)
        assert (status, len(said.splitlines())) == (0, 3)
        assert "cut.png" in said
        document = json.loads(regard("failures", "--url", url, "--json")[1])["failures"]
        ids = {one["filename"]: one["image_id"] for one in document}
        job = json.loads(regard("jobs", "--url", url, "--json")[1])["jobs"][0]
        assert (job["total"], job["failed"]) == (2, 2)
        assert "set aside: cut.png: The file is damaged" in regard("jobs", job["job_id"], "--url", url)[2]
        assert "failure   The file is damaged" in regard("info", ids["cut.png"], "--url", url)[1]
        Originals(tmp_path / "data").path(ids["cut.png"], "png").write_bytes(whole)
        status, said, _ = regard("failures", "--retry-all", "--url", url, "--json")
        reasons = {one["image_id"]: one["reason"] for one in json.loads(said)["retried"]}
        assert (status, reasons[ids["cut.png"]]) == (1, None)
        assert "damaged" in reasons[ids["short.png"]]
        assert [line.split()[1] for line in regard("failures", "--url", url)[1].splitlines()[1:]] == ["short.png"]
        status, said, _ = regard("failures", "--retry", ids["cut.png"], "--url", url)
        assert (status, "was set aside" in said) == (1, True)


def test_the_day_that_a_month_means_is_told(regard: Regard) -> None:
    assert "2024-05 or 2024 (their first day)" in " ".join(regard("edit", "--help")[1].split())
