"""`regard export`: originals and descriptions taken out to a folder, and taken in again as they were."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.files import replace_file
from regard_client import Client, Picture
from service.cli import export_folder
from service.cli.export_folder import DESCRIPTIONS, ExportFolder
from service.cli.picture_files import find_files
from service.cli.user_errors import one_line
from service.storage.originals import Originals, image_id_of_file
from service.storage.picture_names import is_picture_name, names_of
from tests.support.cli_runner import Regard
from tests.support.described_pictures import described, jpeg
from tests.support.library import two_coloured
from tests.support.pictures import encoded
from tests.support.running_server import running_server

RED, BLUE, GREEN = (encoded(two_coloured(colour, colour), "PNG") for colour in ("red", "blue", "green"))
ID = "0123456789abcdef" * 2


def image_id_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path / "data") as address:
        yield address


@pytest.fixture
def library(url: str) -> str:
    """A service with four pictures, of which two have one name, one has none that pictures have, and one is in a
    folder."""
    with Client(url) as client:
        answer = client.ingest(
            [
                Picture(RED, "a.png", captions=["a red wall", "red"], tags={"album": "walls", "year": 2024}),
                Picture(GREEN, "2024/May/b.png", taken_at="2024-05"),
                Picture(encoded(two_coloured("red", "blue"), "JPEG"), "C"),
            ]
        )
        client.wait(answer["job_id"])
        client.wait(client.ingest([Picture(BLUE, "a.png", captions=["a blue wall"])])["job_id"])
    return url


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def descriptions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / DESCRIPTIONS).read_text().splitlines()]


def told(regard: Regard, folder: Path, *options: object) -> tuple[int, dict[str, Any]]:
    status, said, _ = regard("export", folder, "--json", *options)
    return status, json.loads(said)


def test_an_exported_library_is_taken_in_again_as_it_was(regard: Regard, library: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert told(regard, folder, "--url", library) == (
        0,
        {"written": 4, "there_already": 0, "without_file": 0, "problems": [], "no_longer_listed": []},
    )
    files = files_in(folder)
    assert {files["a.png"], files["2024/May/b.png"]} == {RED, GREEN}
    assert BLUE in files.values()
    assert len(files) == 5
    with running_server(tmp_path / "second") as other:
        arguments = ["ingest", folder, "--captions", folder / DESCRIPTIONS, "--no-albums", "--url", other]
        assert regard(*arguments)[0] == 0
        with Client(library) as before, Client(other) as after:
            kept = ("image_id", "captions", "tags", "taken_at", "width")
            of_before, of_after = (
                {one["image_id"]: {name: one[name] for name in kept} for one in client.images()}  # type: ignore[literal-required]
                for client in (before, after)
            )
    assert of_before == of_after


def test_what_was_taken_away_does_not_come_back_elsewhere(regard: Regard, url: str, tmp_path: Path) -> None:
    names, folder = ("all.jpg", "some.jpg", "none.jpg"), tmp_path / "out"
    walls = [two_coloured("red", "blue", 40 + number) for number in range(3)]
    contents = [jpeg(described(f"caption {n}", "a", "b"), picture=wall) for n, wall in enumerate(walls)]
    with Client(url) as client:
        client.wait(client.ingest([Picture(c, name) for c, name in zip(contents, names, strict=True)])["job_id"])
        ids = {one["filename"]: one["image_id"] for one in client.images()}
        client.edit(ids["none.jpg"], captions=None, tags=None, taken_at=None)
        client.edit(ids["some.jpg"], tags={"keywords": None, "mine": 1})
        expected = {one["filename"]: (one["captions"], one["tags"]) for one in client.images()}
    assert expected == {
        "all.jpg": (["caption 0"], {"keywords": "a; b"}),
        "some.jpg": (["caption 1"], {"mine": 1}),
        "none.jpg": ([], {}),
    }
    told(regard, folder, "--url", url)
    with running_server(tmp_path / "second") as other, Client(other) as client:
        arguments = ["ingest", folder, "--captions", folder / DESCRIPTIONS, "--no-albums", "--url", other]
        assert regard(*arguments)[0] == 0
        assert {one["filename"]: (one["captions"], one["tags"]) for one in client.images()} == expected


def test_an_export_that_is_repeated_adds_what_is_missing_and_writes_over_nothing(
    regard: Regard, library: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    told(regard, folder, "--url", library)
    before = files_in(folder)
    (folder / "2024" / "May" / "b.png").write_bytes(b"somebody's own")
    _, said = told(regard, folder, "--url", library)
    assert (said["written"], said["there_already"]) == (1, 3)
    after = files_in(folder)
    assert after["2024/May/b.png"] == b"somebody's own"
    assert after.keys() > before.keys()
    (added,) = after.keys() - before.keys()
    assert after[added] == GREEN
    _, said = told(regard, folder, "--url", library)
    assert (said["written"], said["there_already"]) == (0, 4)
    assert files_in(folder) == after


def test_another_export_follows_names_and_tells_of_pictures_that_went_away(
    regard: Regard, library: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    told(regard, folder, "--url", library)
    with Client(library) as client:
        ids = {one["filename"]: one["image_id"] for one in client.images()}
        client.edit(ids["2024/May/b.png"], filename="June/new.png", captions=["a lawn"])
        client.delete(ids["C"])
    _, said = told(regard, folder, "--url", library, "--date", "2024")
    assert (said["written"], said["there_already"], said["no_longer_listed"]) == (0, 1, []), "a part knows no others"
    _, said = told(regard, folder, "--url", library)
    assert (said["written"], said["there_already"], said["no_longer_listed"]) == (0, 3, ["C.jpg"])
    files = files_in(folder)
    assert (files["June/new.png"], "2024/May/b.png" in files, "C.jpg" in files) == (GREEN, False, True)
    found = {line["image"]: line["captions"] for line in descriptions(folder)}
    assert (found["June/new.png"], len(found)) == (["a lawn"], 4)
    status, table, notes = regard("export", folder, "--url", library)
    assert (status, "files of former pictures" in table) == (0, True)
    assert "file of a picture that no longer exists: C.jpg" in notes


@pytest.mark.parametrize("entry", [{}, {"image_id": image_id_of(RED)}, {"image_id": ["x"]}])
def test_a_list_of_descriptions_moves_nothing_from_elsewhere(tmp_path: Path, entry: dict[str, Any]) -> None:
    folder, others = tmp_path / "out", [tmp_path / "own.png", tmp_path / "deep" / "own.png"]
    for path in (folder / "x", others[1]):
        path.parent.mkdir()
    (folder / "link").symlink_to(others[1].parent)
    for path in others:
        path.write_bytes(RED)
    names = ["../own.png", str(others[1]), "link/own.png", "\0"]
    lines = [json.dumps({"image": name, "captions": [], **entry}) for name in names]
    (folder / DESCRIPTIONS).write_text("\n".join(lines))
    target = ExportFolder(folder)
    assert target.find(image_id_of(RED), "png", "red.png") is None
    assert target.no_longer_listed([]) == []
    assert all(path.read_bytes() == RED for path in others)


def test_no_picture_is_written_by_way_of_a_link_that_leads_out(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for made in (folder / "inside", elsewhere):
        made.mkdir(parents=True)
    (folder / "link").symlink_to(elsewhere)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "own").symlink_to(folder / "inside")
    target = ExportFolder(folder)
    added = [target.add(f"{n}{ID[1:]}", "png", f"{name}/a.png", RED) for n, name in enumerate(["link", "loop", "own"])]
    assert added == [f"0{ID[1:]}.png", f"1{ID[1:]}.png", "own/a.png"]
    image: Any = {"image_id": image_id_of(RED), "captions": [], "tags": {}, "taken_at": None, "state": "ready"}
    target.describe("own/a.png", image)
    assert target.find(image_id_of(RED), "png", "link/deep/b.png") == f"{image_id_of(RED)}.png"
    assert list(elsewhere.iterdir()) == []


def test_what_somebody_described_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "Holiday").mkdir()
    (tmp_path / "Holiday" / "1.png").write_bytes(RED)
    (tmp_path / DESCRIPTIONS).write_text(json.dumps({"image": "Holiday/1.png", "captions": ["a wall"]}))
    target = ExportFolder(tmp_path)
    assert target.find(image_id_of(RED), "png", "renamed.png") is None
    assert target.no_longer_listed([]) == []
    assert target.find(image_id_of(RED), "png", "Holiday/1.png") == "Holiday/1.png"


def test_a_name_that_the_locale_cannot_write_becomes_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_folder, "replace_file", lambda path, content: replace_file(in_ascii(path), content))
    monkeypatch.setattr(export_folder, "image_id_of_file", lambda path: image_id_of_file(in_ascii(path)))
    target = ExportFolder(tmp_path)
    assert target.find(ID, "png", "雪.png") is None
    assert target.add(ID, "png", "雪.png", RED) == f"{ID}.png"
    assert (tmp_path / f"{ID}.png").read_bytes() == RED


def in_ascii(path: Path) -> Path:
    """The path; UnicodeEncodeError as Python raises it where the locale has not all of its letters."""
    str(path).encode("ascii")
    return path


def test_a_part_is_exported_beside_what_was_exported_before(regard: Regard, library: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    _, said = told(regard, folder, "--url", library, "--tag", "album=walls")
    assert (said["written"], set(files_in(folder))) == (1, {"a.png", DESCRIPTIONS})
    (image_id,) = (one["image_id"] for one in descriptions(folder))
    expected = {
        "image": "a.png",
        "image_id": image_id,
        "captions": ["a red wall", "red"],
        "tags": {"album": "walls", "year": 2024},
    }
    assert descriptions(folder) == [{**expected, "taken_at": None, "decided": ["captions", "tags", "taken_at"]}]
    told(regard, folder, "--url", library, "--date", "2024")
    assert [one["image"] for one in descriptions(folder)] == ["2024/May/b.png", "a.png"]
    (folder / "a.png").unlink()
    told(regard, folder, "--url", library, "--date", "2024")
    assert [one["image"] for one in descriptions(folder)] == ["2024/May/b.png"], (
        "what lies there no more is not told of"
    )
    (folder / DESCRIPTIONS).write_text("notes of my own")
    status, _, error = regard("export", folder, "--url", library)
    assert status == 1
    assert "descriptions.jsonl:1" in error
    assert (folder / DESCRIPTIONS).read_text() == "notes of my own"


def test_what_cannot_be_had_is_told_and_the_others_are_written(regard: Regard, library: str, tmp_path: Path) -> None:
    with Client(library) as client:
        stored = {one["filename"]: one["image_id"] for one in client.images()}
    originals = Originals(tmp_path / "data", write=False)
    originals.path(stored["2024/May/b.png"], "png").unlink()
    damaged = originals.path(stored["C"], "jpg")
    damaged.write_bytes(bytes(damaged.stat().st_size))  # another size would be told by the service
    status, said = told(regard, tmp_path / "out", "--url", library)
    assert (status, said["written"]) == (1, 2)
    assert {one["filename"]: one["problem"].split(";")[0] for one in said["problems"]} == {
        "2024/May/b.png": f"The original of picture {stored['2024/May/b.png']} is missing on the server",
        "C": "Its file is damaged on the server",
    }
    status, table, notes = regard("export", tmp_path / "out", "--url", library)
    assert (status, table.split()) == (1, ["outcome", "pictures", "there", "already", "2", "not", "written", "2"])
    assert "not written: C: Its file is damaged" in notes


def test_what_was_written_is_described_although_the_service_went_away(
    regard: Regard, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = Client.original, list[str]()

    def ask_twice(self: Client, image_id: str) -> bytes:
        asked.append(image_id)
        if len(asked) > 2:
            raise KeyboardInterrupt
        return ask(self, image_id)

    monkeypatch.setattr(Client, "original", ask_twice)
    regard("export", tmp_path / "out", "--url", library)
    assert len(files_in(tmp_path / "out")) == 3
    assert [one["image"] for one in descriptions(tmp_path / "out")] == ["2024/May/b.png", "a.png"]


def test_a_filter_that_nothing_passes_makes_no_folder(regard: Regard, library: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert regard("export", out, "--url", library, "--tag", "a=b")[:2] == (0, "no pictures match\n")
    assert not out.exists()


def test_an_empty_library_makes_an_empty_list(regard: Regard, url: str, tmp_path: Path) -> None:
    status, table, _ = regard("export", tmp_path / "out", "--url", url)
    assert (status, table.split()) == (0, ["outcome", "pictures", "written", "0"])
    assert files_in(tmp_path / "out") == {DESCRIPTIONS: b""}


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=255))
def test_no_name_leads_out_of_the_folder_or_is_passed_over_by_an_ingestion(filename: str) -> None:
    for name in names_of(ID, "jpg", filename):
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert not any(part in ("", ".", "..") or part.startswith(".") for part in path.parts)
        assert is_picture_name(path)
    assert len(set(names_of(ID, "jpg", filename))) >= 2


@pytest.mark.parametrize(
    "filename", ["/etc/passwd", "../../b.png", ".hidden/.a.png", "a", "//", "..", "x.JPG", "雪" * 250]
)
def test_files_of_any_name_are_written_below_the_folder(tmp_path: Path, filename: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a.jpg").mkdir()  # a folder where a file should be
    (folder / "etc").write_bytes(b"")  # a file where a folder should be
    target = ExportFolder(folder)
    name = target.add(ID, "jpg", filename, RED)
    assert (folder / name).read_bytes() == RED
    assert set(files_in(tmp_path)) == {f"out/{name}", "out/etc"}
    assert name in {found for found, _ in find_files([folder]).pictures}


def test_a_name_as_long_as_the_disk_allows_is_kept(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path)
    for name in (f"{'x' * 251}.png", f"{'é' * 125}.png", f"{'画' * 83}.png"):
        assert folder.add(ID, "png", name, RED) == name
    assert folder.add(ID, "png", f"{'x' * 252}.png", RED) == f"{ID}.png"
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_that_the_disk_does_not_take_is_named(tmp_path: Path) -> None:
    program = (
        "import pathlib, resource, sys\n"
        "from service.cli.export_folder import ExportFolder\n"
        "from service.cli.user_errors import one_line\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    ExportFolder(pathlib.Path(sys.argv[1])).add('a' * 32, 'jpg', 'beach.jpg', bytes(5000))\n"
        "except OSError as fault:\n"
        "    sys.exit(one_line(fault))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.stderr.startswith(f"{tmp_path / 'beach.jpg'}: File too large: ")
    assert "ulimit -f" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_what_to_do(number: int) -> None:
    said = one_line(OSError(number, os.strerror(number), "photos/beach.jpg"))
    assert said.startswith(f"photos/beach.jpg: {os.strerror(number)}: ")
    assert said.endswith("try again")
