"""Commands that work on many pictures at once: ids from a pipe, descriptions from a file."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard_client import Client, Picture
from service.cli.ingesting.descriptions import captions_by_name, descriptions_by_name
from service.cli.ingesting.sending import send_files
from service.errors import UserError
from service.ingest.manifest import ManifestEntry
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.running_server import running_server

COLOURS = ["red", "green", "blue"]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service with three pictures, all but the blue one of one album."""
    with running_server(tmp_path / "data") as address:
        with Client(address) as client:
            pictures = [
                Picture(
                    encoded(two_coloured(colour, colour), "PNG"),
                    f"{colour}.png",
                    tags={"album": "other" if colour == "blue" else "walls"},
                )
                for colour in COLOURS
            ]
            client.wait(client.ingest(pictures)["job_id"])
        yield address


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the next command read a text."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_ids_go_from_one_command_to_the_next(regard: Regard, url: str, pipe: Callable[[str], None]) -> None:
    at = ["--url", url]
    with Client(url) as client:
        walls = [one["image_id"] for one in client.images() if one["tags"]["album"] == "walls"]
        status, ids, noted = regard("list", "--tag", "album=walls", "--ids", *at)
        assert (status, ids, noted) == (0, "\n".join(walls) + "\n", "")
        pipe(ids)
        assert regard("edit", "-", "--tag", "place=Oslo", *at)[0] == 0
        assert [one["image_id"] for one in client.images(filter={"tags": {"place": "Oslo"}})] == walls
        pipe(ids)
        assert regard("delete", "-", *at)[1] == "".join(f"{one} deleted\n" for one in walls)
        assert [one["filename"] for one in client.images()] == ["blue.png"]
        assert regard("list", "--deleted", "--ids", *at)[1] == ids
        for told in ("is back", "was not deleted"):
            pipe(ids)
            status, said, _ = regard("restore", "-", *at)
            assert (status, [line.endswith(told) for line in said.splitlines()]) == (0, [True] * len(walls))
        assert len(list(client.images())) == 3
    found = regard("search", "red", "-k", 1, "--ids", *at)[1]
    assert found == f"{walls[0]}\n"
    pipe(found)
    assert regard("info", "-", *at)[1] == regard("info", walls[0], *at)[1]
    pipe(ids)
    status, _, noted = regard("info", "-", *at)
    assert (status, "standard input holds 2 ids" in noted) == (2, True)


def test_a_list_of_ids_that_is_not_whole_says_so(regard: Regard, url: str) -> None:
    _, ids, noted = regard("list", "--limit", 1, "--ids", "--url", url)
    assert len(ids.split()) == 1
    assert "there are more: add --after" in noted
    assert regard("list", "--tag", "album=none", "--ids", "--url", url)[:2] == (0, "")


def test_a_list_goes_on_behind_pictures_that_are_gone(regard: Regard, url: str, pipe: Callable[[str], None]) -> None:
    with Client(url) as client:
        gone, *kept = [one["image_id"] for one in client.images()]
        client.delete(gone)
        pipe("\n".join([gone, "0" * 32, *kept]))
        status, changed, error = regard("edit", "-", "--tag", "place=Oslo", "--json", "--url", url)
        assert [one["image_id"] for one in json.loads(changed)] == kept
        missing = f"There is no picture {gone}.\nregard: There is no picture {'0' * 32}. 2 of 4 are not there.\n"
        assert (status, error) == (1, missing)
        for command, told in (("delete", "deleted"), ("restore", "is back")):
            pipe("\n".join(["0" * 32, *kept]))
            status, done, error = regard(command, "-", "--url", url)
            assert [line.split()[0] for line in done.splitlines() if told in line] == kept
            assert (status, error.count("\n")) == (1, 1)
            assert error.startswith(f"regard: There is no picture {'0' * 32}")


def test_what_is_deleted_and_brought_back_is_told_as_json(
    regard: Regard, url: str, pipe: Callable[[str], None]
) -> None:
    with Client(url) as client:
        ids = [one["image_id"] for one in client.images()]
        for command in ("delete", "restore"):
            pipe("\n".join(["0" * 32, *ids]))
            status, said, error = regard(command, "-", "--json", "--url", url)
            assert [one["image_id"] for one in json.loads(said)] == ids
            assert (status, error.count("\n")) == (1, 1)
        assert {one["image_id"] for one in client.images()} == set(ids)


def test_a_deleted_picture_that_is_sent_again_is_told_of(regard: Regard, url: str, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(encoded(two_coloured("red", "red"), "PNG"))
    (tmp_path / "new.png").write_bytes(encoded(two_coloured("red", "blue"), "PNG"))
    with Client(url) as client:
        client.delete(next(one["image_id"] for one in client.images() if one["filename"] == "red.png"))
    status, said, _ = regard("ingest", tmp_path / "red.png", tmp_path / "new.png", "--url", url)
    rows = [" ".join(line.split()) for line in said.splitlines()[1:]]
    assert (status, rows) == (0, ["taken in 1", "deleted before, and brought back 1"])


def test_no_ids_change_nothing(regard: Regard, url: str, pipe: Callable[[str], None]) -> None:
    pipe("\n")
    assert regard("delete", "-", "--url", url)[:2] == (0, "")
    pipe("no pictures match\n")
    status, _, error = regard("delete", "-", "--url", url)
    assert (status, "no" in error) == (1, True)
    with Client(url) as client:
        assert len(list(client.images())) == 3


def test_what_was_changed_before_a_refusal_is_told(regard: Regard, url: str) -> None:
    with Client(url) as client:
        first = next(client.images())["image_id"]
    status, said, error = regard("edit", first, "0" * 32, "--name", "a.png", "--url", url)
    assert (status, said.split()[:2]) == (1, [first, "a.png:"])
    assert "There is no picture" in error


def written(folder: Path, *lines: dict[str, object]) -> Path:
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_descriptions_of_all_lines_are_put_together(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"image": "a.png", "captions": ["one", "two"], "tags": {"year": 2023, "place": "Oslo"}, "split": "train"},
        {"image": "b.png", "captions": [], "taken_at": "2024-05", "tags": None},
        {"image": "a.png", "captions": ["two", "three"], "tags": {"year": 2024}, "taken_at": "2024", "other": [1]},
    )
    tags: dict[str, str | int | float] = {"year": 2024, "place": "Oslo"}
    assert descriptions_by_name(path) == {
        "a.png": ManifestEntry(captions=["one", "two", "three"], tags=tags, taken_at="2024"),
        "b.png": ManifestEntry(taken_at="2024-05"),
    }
    assert captions_by_name(path) == {"a.png": ["one", "two", "three"], "b.png": []}
    assert descriptions_by_name(None) == {}
    assert captions_by_name(None) == {}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"tags": {"year": [1]}}, r"captions\.jsonl:2: tags\.year: a tag is a text of at most 512 characters"),
        ({"tags": "walls"}, r"captions\.jsonl:2: tags: "),
        ({"taken_at": "yesterday"}, r"captions\.jsonl:2: taken_at: must be a year"),
        ({"taken_at": 2024}, r"captions\.jsonl:2: taken_at: "),
    ],
)
def test_what_may_not_be_said_of_a_picture_is_named_with_its_line(
    tmp_path: Path, said: dict[str, object], problem: str
) -> None:
    path = written(tmp_path, {"image": "a.png", "captions": []}, {"image": "b.png", "captions": ["x"], **said})
    with pytest.raises(UserError, match=problem):
        descriptions_by_name(path)


def test_pictures_are_taken_in_with_what_a_file_says_of_them(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    two_coloured("yellow", "yellow").save(folder / "a.png")
    said: dict[str, object] = {
        "image": "a.png",
        "captions": ["a wall"],
        "tags": {"year": 2024},
        "taken_at": "2024-05-06",
    }
    assert send_files(url, [folder], written(tmp_path, said)).accepted == 1
    with Client(url) as client:
        (one,) = client.images(filter={"tags": {"year": 2024}})
    assert (one["captions"], one["tags"]) == (["a wall"], {"album": "photos", "year": 2024})
    assert one["taken_at"] == "2024-05-06T00:00:00Z"
