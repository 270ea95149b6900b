"""Searches as people read them: a table, filters, dates; a picture is not like itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.matching.calibration import Calibration
from models.matching.log_odds import LogOddsModel
from models.matching.match_verdict import MatchTest
from regard_client import Client, Picture
from service.storage.originals import image_id_of_file
from tests.support.cli_runner import Regard
from tests.support.fakes import FakeMatcher
from tests.support.library import two_coloured
from tests.support.running_server import running_server

DATES = {"red": "2024-05-01", "green": "2023-12-31", "blue": None, "yellow": "2024-01-01"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for colour in DATES:
        two_coloured(colour, "white").save(folder / f"{colour}.png")
    return folder


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[str]:
    """A service with four pictures without captions, three of them with a date and a year."""
    pictures = [
        Picture(folder / f"{colour}.png", tags={"year": int(date[:4])} if date else {}, taken_at=date)
        for colour, date in DATES.items()
    ]
    with running_server(tmp_path_factory.mktemp("data")) as address:
        with Client(address) as client:
            assert client.wait(client.ingest(pictures)["job_id"])["done"] == len(DATES)
        yield address


def found_names(regard: Regard, url: str, *options: object) -> list[str]:
    """Names of the pictures found, in their order and without their ending."""
    status, said, noted = regard("search", "red", "--url", url, "--json", *options)
    assert status == 0, noted
    return [hit["filename"].removesuffix(".png") for hit in json.loads(said)["results"]]


@pytest.mark.slow
def test_the_query_that_a_model_is_loaded_for_says_so(regard: Regard, folder: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, at_first_use=True) as address:
        with Client(address) as client:
            client.wait(client.ingest([folder / "red.png"])["job_id"])
        assert "when asked" in regard("models", "--url", address)[1]
        _, said, noted = regard("search", "red", "--url", address)
        assert (noted.startswith("the model fake was loaded first, in "), "loaded" in said) == (True, False)
        assert "loaded" not in "".join(regard("search", "green", "--url", address)[1:])
        assert "when asked" not in regard("models", "--url", address)[1]
    with running_server(tmp_path, at_first_use=True) as address:
        for options in (("--captions",), ()):
            noted = regard("similar", folder / "red.png", "--url", address, *options)[2]
            assert ("loaded first" in noted) is bool(options)


def test_results_stand_in_a_table(regard: Regard, url: str) -> None:
    _, said, _ = regard("search", "red", "--url", url)
    head, *rows = said.splitlines()
    assert head.split() == ["rank", "score", "name", "date", "tags", "found", "id"]  # this model has no probabilities
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
    assert rows[0].split()[2:5] == ["red.png", "2024-05-01", "year=2024"]
    undated = next(row for row in rows if "blue.png" in row)
    assert len(undated.split()) == 4


def test_probabilities_stand_beside_pictures_that_match(regard: Regard, folder: Path, tmp_path: Path) -> None:
    line = LogOddsModel(8.0, -2.0)
    matcher = FakeMatcher()
    matcher.calibration = Calibration(text=line, image=line, text_match=MatchTest(line, 0.5, 0.5))
    with running_server(tmp_path, matcher) as address:
        with Client(address) as client:
            client.wait(client.ingest([folder / "red.png"])["job_id"])
        for question, matched in (("red", True), ("magenta", False)):
            asked = ("search", question, "--match", "pictures", "--url", address)
            assert '"probability": null' not in regard(*asked, "--json")[1]
            assert ("%" in regard(*asked)[1]) is matched


def test_the_word_that_mattered_stands_beside_and_every_word_below(regard: Regard, url: str) -> None:
    _, said, _ = regard("search", "green red", "--url", url, "-k", 1, "--explain", "--tag", "year=2024")
    table, below = said.split("\n\n")
    head, row = table.splitlines()
    assert head.split() == ["rank", "score", "name", "date", "tags", "word", "id"]
    assert row.split()[2] == "red.png"
    assert row.split()[5] == "red"
    name, *words = below.splitlines()
    assert name == "1 red.png"
    assert [line.split()[0] for line in words] == ["green", "red", "(<start>"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--date", "2024"], {"red", "yellow"}),
        (["--since", "2024-02"], {"red"}),
        (["--until", "2023"], {"green"}),
        (["--tag", "year=2024", "--until", "2024-01"], {"yellow"}),
        (["--tag", "year=2023", "--tag", "year=2024"], {"red", "green", "yellow"}),
        (["--tag", "year=1999"], set()),
    ],
)
def test_searches_are_filtered(regard: Regard, url: str, options: list[str], expected: set[str]) -> None:
    assert set(found_names(regard, url, *options)) == expected


def test_a_question_needs_no_quotes(regard: Regard, url: str) -> None:
    asked = [
        regard("search", *words, "--json", "--url", url)[1] for words in (["red and green"], ["red", "and", "green"])
    ]
    assert json.loads(asked[0])["query"] == json.loads(asked[1])["query"] == "red and green"


def test_results_are_sorted_by_relevance_or_date(regard: Regard, url: str) -> None:
    assert found_names(regard, url)[0] == "red"
    assert found_names(regard, url, "--sort", "date") == ["red", "yellow", "green", "blue"]
    assert found_names(regard, url, "-k", "1", "--sort", "date") == ["red"]


def test_a_picture_is_not_like_itself(regard: Regard, url: str, folder: Path, tmp_path: Path) -> None:
    _, said, _ = regard("similar", folder / "red.png", "--url", url, "--json", "-k", 2)
    answer = json.loads(said)
    assert (answer["k"], [hit["rank"] for hit in answer["results"]]) == (2, [1, 2])
    assert "red.png" not in said
    elsewhere = tmp_path / "other name.png"
    elsewhere.write_bytes((folder / "red.png").read_bytes())
    _, said, _ = regard("similar", elsewhere, "--url", url)
    assert "red.png" not in said
    assert len(said.splitlines()) == 1 + 3
    two_coloured("red", "black").save(tmp_path / "new.png")
    _, said, _ = regard("similar", elsewhere, "something", "blue", "--url", url, "-k", 1)
    assert "blue.png" in said
    assert "unknown words: something" in said
    status, _, said = regard("similar", elsewhere, "blue", "--captions", "--url", url)
    assert (status, "leave out the words" in said) == (2, True)
    _, said, _ = regard("similar", tmp_path / "new.png", "--url", url, "-k", 4)
    assert len(said.splitlines()) == 1 + 4
    _, said, _ = regard("similar", tmp_path / "new.png", "--url", url, "--date", "2023")
    assert [line.split()[2] for line in said.splitlines()[1:]] == ["green.png"]


def test_a_stored_picture_is_named_by_its_id(regard: Regard, url: str, folder: Path) -> None:
    by_file, by_id = (
        json.loads(regard("similar", one, "--url", url, "--json")[1])["results"]
        for one in (folder / "red.png", image_id_of_file(folder / "red.png"))
    )
    assert by_id == by_file
    status, _, noted = regard("similar", "0" * 31, "--url", url)
    assert (status, "does not exist, and this is not the id of a stored" in " ".join(noted.split())) == (
        2,
        True,
    )
    for other, words in (("/dev/null", "is a device or a pipe"), (folder, "is a folder")):
        assert words in " ".join(regard("similar", other, "--url", url)[2].split())
    assert "no picture" in regard("similar", "0" * 32, "--url", url)[2].lower()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--date", "2024"], ["yellow"]),
        (["--tag", "year>=2024"], ["yellow"]),
        (["--sort", "date"], ["yellow", "green", "blue"]),
        (["--sort", "date", "--shortlist", 50, "-k", 3], ["yellow", "green", "blue"]),
        (["--model", "fake", "--until", "2023"], ["green"]),
        (["--min-score", 2], []),
    ],
)
def test_pictures_like_a_picture_take_the_options_of_a_search(
    regard: Regard, url: str, folder: Path, options: list[object], expected: list[str]
) -> None:
    status, said, noted = regard("similar", folder / "red.png", "--url", url, "--json", *options)
    assert status == 0, noted
    assert [hit["filename"].removesuffix(".png") for hit in json.loads(said)["results"]] == expected


def test_the_best_stay_when_the_newest_come_first(regard: Regard, url: str, tmp_path: Path) -> None:
    """A picture that is not stored gets one result more than it shows: the least like it goes, not the oldest."""
    two_coloured("green", "black").save(tmp_path / "new.png")
    first = ("similar", tmp_path / "new.png", "--url", url, "--json", "-k", 1)
    (best,) = json.loads(regard(*first)[1])["results"]
    (dated,) = json.loads(regard(*first, "--sort", "date")[1])["results"]
    assert (dated["image_id"], best["filename"]) == (best["image_id"], "green.png")


def test_nothing_is_said_before_results(regard: Regard, url: str, folder: Path) -> None:
    _, said, noted = regard("similar", folder / "red.png", "--url", url)
    assert said.splitlines()[0].split()[0] == "rank"
    assert "nothing" not in said + noted
    _, said, _ = regard("similar", folder / "red.png", "--url", url, "--min-score", 2)
    assert said == "nothing matches well enough: 3 candidates left out\n"
    status, _, noted = regard("similar", folder / "red.png", "--url", url, "--min-probability", 0.5)
    assert (status, "use min_score" in noted) == (1, True)


def test_a_filter_that_nothing_passes_is_named(regard: Regard, url: str, folder: Path) -> None:
    for asked in (["search", "green"], ["similar", str(folder / "red.png")]):
        status, said, _ = regard(*asked, "--tag", "year=1999", "--url", url)
        assert (status, said) == (0, "nothing found among the pictures with these tags and dates\n")


def test_a_picture_alone_has_nothing_like_it(regard: Regard, folder: Path, tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as url:
        assert regard("ingest", folder / "red.png", "--url", url)[0] == 0
        assert regard("similar", folder / "red.png", "--url", url)[:2] == (0, "nothing found\n")


def test_captions_are_asked_for_where_there_are_none(regard: Regard, url: str, folder: Path) -> None:
    status, said, _ = regard("similar", folder / "red.png", "--captions", "--url", url)
    assert (status, said.startswith("No captions are stored")) == (0, True)
    assert "regard edit --caption" in said
    _, said, _ = regard("similar", folder / "red.png", "--captions", "--url", url, "--json")
    assert (json.loads(said)["results"], json.loads(said)["note"][:11]) == ([], "No captions")
