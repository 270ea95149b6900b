"""Which files of a folder are taken for pictures."""

import os
from pathlib import Path

import pytest

from service.cli.ingesting.summary import ABOUT_LINKS, IngestSummary, print_summary
from service.cli.picture_files import find_files
from service.errors import UserError
from tests.support.cli_runner import Regard
from tests.support.project_files import ROOT


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_a_folder_gives_its_pictures_by_their_path_within(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b.JPEG", "sub/a.jpg", "sub/deep/c.tif", "notes.txt", ".hidden.jpg", ".git/d.png")
    assert find_files([tmp_path]).pictures == [
        (name, tmp_path / name) for name in ("a.jpg", "b.JPEG", "sub/a.jpg", "sub/deep/c.tif")
    ]


def test_numbers_in_names_are_in_their_order(tmp_path: Path) -> None:
    names = ["1.jpg", "2/a.jpg", "10/a.jpg", "dsc1.jpg", "dsc02.jpg", "dsc2.jpg", "dsc10.jpg", "dsc²3.jpg"]
    make(tmp_path, *names)
    found = [name for name, _ in find_files([tmp_path]).pictures]
    assert [name for name in found if "/" not in name] == [name for name in names if "/" not in name]
    assert [name for name in found if "/" in name] == ["2/a.jpg", "10/a.jpg"]


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "picture")
    assert find_files([tmp_path / "picture"]).pictures == [("picture", tmp_path / "picture")]


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "secret/s.jpg", "photos/a.jpg")
    photos = tmp_path / "photos"
    (photos / "file.jpg").symlink_to(tmp_path / "secret" / "s.jpg")
    (photos / "folder").symlink_to(tmp_path / "secret")
    (photos / "loop").symlink_to(photos)
    (photos / "nowhere.jpg").symlink_to(tmp_path / "gone.jpg")
    (photos / "inside.jpg").symlink_to(photos / "a.jpg")
    (photos / "circle.jpg").symlink_to("circle.jpg")
    found = find_files([photos])
    assert found.skipped["links to nothing, and devices"] == 1
    assert [name for name, _ in found.pictures] == ["a.jpg", "inside.jpg"]


def test_what_is_passed_over_is_counted_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.cli.picture_files.can_read_raw", lambda: False)
    make(tmp_path, "photos/a.JPG", "photos/b.jfif", "photos/x.heic", "photos/sub/raw.DNG", "photos/film.mp4")
    make(tmp_path, "photos/a.txt", "photos/c.TXT", "photos/.hidden.jpg", "photos/.git/d.png", "photos/noname", "e.jpg")
    (tmp_path / "photos" / "out.jpg").symlink_to(tmp_path / "e.jpg")
    (tmp_path / "photos" / "folder").symlink_to(tmp_path)
    found = find_files([tmp_path / "photos"])
    assert [name for name, _ in found.pictures] == ["a.JPG", "b.jfif", "x.heic"]
    assert found.skipped == {
        "RAW photographs": 1,
        "films": 1,
        ".txt files": 2,
        "hidden files": 1,
        "hidden folders": 1,
        "files without an extension": 1,
        "links that lead elsewhere": 1,
        "links to folders": 1,
    }


def test_a_name_that_is_no_text_can_still_be_sent(tmp_path: Path) -> None:
    (tmp_path / "\udcff.jpg").write_bytes(b"")
    ((name, path),) = find_files([tmp_path]).pictures
    assert name.encode()
    assert path.exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.jpg"):
        find_files([tmp_path / "gone.jpg"])


def test_the_album_of_a_picture_is_the_folder_that_holds_it(tmp_path: Path) -> None:
    photos = tmp_path / "Photos"
    make(photos, "a.jpg", "Beach 2023/b.jpg", "Oslo/day 1/c.jpg", f"{'x' * 200}/{'y' * 200}/{'z' * 200}/d.jpg")
    make(tmp_path, "alone.jpg")
    albums = find_files([photos, tmp_path / "alone.jpg"]).albums
    assert albums[photos / "a.jpg"] == "Photos"
    assert albums[photos / "Beach 2023" / "b.jpg"] == "Beach 2023"
    assert albums[photos / "Oslo" / "day 1" / "c.jpg"] == "Oslo/day 1"
    assert tmp_path / "alone.jpg" not in albums
    (longest,) = [album for path, album in albums.items() if path.name == "d.jpg"]
    assert len(longest) == 512
    assert longest.endswith("z")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(UserError, match=r"pipe\.jpg is a device or a pipe"):
        find_files([tmp_path / "pipe.jpg"])


def test_extraction_says_what_it_passes_over(regard: Regard, tmp_path: Path) -> None:
    (folder := tmp_path / "linked").mkdir()
    (tmp_path / "a.jpg").write_bytes(b"x")
    (folder / "a.jpg").symlink_to(tmp_path / "a.jpg")
    (folder / "film.mp4").write_bytes(b"x")
    status, _, noted = regard("extract", folder, "--out", tmp_path / "features")
    assert (status, "skipped: 1 films, 1 links that lead elsewhere; links are not followed" in noted) == (1, True)
    assert "links are not" not in regard("extract", ROOT / "docs" / "models", "--out", tmp_path / "features")[2]


def test_what_to_do_about_links_is_told(regard: Regard, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "linked").mkdir()
    (tmp_path / "a.jpg").write_bytes(b"x")
    (folder / "a.jpg").symlink_to(tmp_path / "a.jpg")
    status, _, complaint = regard("ingest", folder)
    assert (status, complaint.endswith(f"(skipped: 1 links that lead elsewhere); {ABOUT_LINKS}\n")) == (1, True)
    print_summary(IngestSummary(skipped={"links to folders": 1}))
    print_summary(IngestSummary(skipped={"films": 1}))
    assert capsys.readouterr().err == f"{ABOUT_LINKS}\n"
