"""Files beside pictures that describe them: found by their names, read, and sent as defaults of new pictures."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_client import Client
from service.cli.ingesting.sending import send_files
from service.cli.sidecar_names import CUT_AT, SUPPLEMENT, sidecars_by_picture
from service.media.sidecars import LARGEST_SIDECAR, read_sidecar
from tests.support.described_pictures import described, jpeg, xmp
from tests.support.library import two_coloured

LONG = "L" * 50


def test_each_program_names_them_in_its_way() -> None:
    expected = {
        "a.CR2": ["a.CR2.xmp", "a.XMP"],
        "b.jpg": ["b.jpg.suppl.json"],
        "c-edited(1).jpg": ["c.jpg.supplemental-metadata(1).json"],
        f"{LONG}.jpg": [f"{LONG[:CUT_AT]}.json"],
        f"{LONG}-edited.jpg": [f"{LONG[:CUT_AT]}.json"],
        f"{LONG}(1).jpg": [f"{LONG[: CUT_AT - 3]}(1).json"],
    }
    others = ["c.json", "xmp", "b.jpg(2).json", "b.jpg.supper.json", f"{LONG[:45]}.json"]
    names = {one for ones in expected.values() for one in ones}
    assert sidecars_by_picture([*expected, "c.jpg"], [*names, *others]) == expected


@given(
    st.dictionaries(st.tuples(st.text("aé.()1 ", min_size=1, max_size=60), st.sampled_from(["", "(1)"])), st.booleans())
)
def test_of_takeout_each_picture_has_its_own_unless_the_cut_makes_it_mean_several(
    titles: dict[tuple[str, str], bool],
) -> None:
    named = {
        f"{stem}{number}.jpg": f"{stem}.jpg{SUPPLEMENT * is_new}"[:CUT_AT] + f"{number}.json"
        for (stem, number), is_new in titles.items()
    }
    alone = {one: [name] for one, name in named.items() if list(named.values()).count(name) == 1}
    assert sidecars_by_picture(named, named.values()) == alone


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xmp", b"<!DOCTYPE x [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><x>&b;</x>"),
        ("a.xmp", b"<a>" * 99_999 + b"</a>" * 99_999),
        ("a.json", b"[" * 500_000),
        ("a.json", b" " * (LARGEST_SIDECAR + 1)),
        ("a.json", b'{"photoTakenTime": {}, "description": "\xe9"}'),
        ("a.json", b'{"photoTakenTime": {}, "people": 5}'),
        ("a.json", b'{"photoTakenTime": {}, "people": [{"name": 5}]}'),
        ("a.json", b'{"photoTakenTime": {"timestamp": 1' + b"0" * 400 + b"}}"),
    ],
)
def test_what_is_broken_or_hostile_is_refused_in_words(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "link.xmp").symlink_to(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.xmp")
    for file in tmp_path.iterdir():
        with pytest.raises(ValueError, match=r"^it (is no valid|has more|is a link)"):
            read_sidecar(file)


def test_new_pictures_start_with_what_they_say(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dated = xmp("", attributes='exif:DateTimeOriginal="2020:01:02 03:04:05"')
    for width, name in enumerate(["plain.jpg", "dated.jpg", "bad.jpg"], 70):
        of_file = dated if name == "dated.jpg" else b""
        (tmp_path / name).write_bytes(jpeg(of_file, picture=two_coloured("red", "blue", width)))
    taken: dict[str, object] = {"photoTakenTime": {"timestamp": "1500000000"}}
    said = taken | {"description": "Tom &amp; " + "x" * 600, "people": [{"name": "Tom"}, {}], "favorited": True}
    (tmp_path / "plain.jpg.json").write_text(json.dumps(said))
    (tmp_path / "dated.jpg.json").write_text(json.dumps(taken | {"description": "worse", "people": [{"name": "Ann"}]}))
    (tmp_path / "dated.xmp").write_bytes(described("a wall", "red", "brick"))
    (tmp_path / "bad.xmp").write_text("<")
    summary = send_files(url, [tmp_path], albums=False)
    assert (summary.accepted, summary.described, summary.skipped) == (3, 2, {})
    assert list(summary.unread_sidecars) == [str(tmp_path / "bad.xmp")]
    assert "plain.jpg.json: caption" in capsys.readouterr().err
    with Client(url) as client:
        stored = {one["filename"]: one for one in client.images()}
        assert {name: (*one["captions"], one["tags"], one["taken_at"]) for name, one in stored.items()} == {
            "plain.jpg": ("Tom & " + "x" * 506, {"people": "Tom", "favourite": "yes"}, "2017-07-14T02:40:00Z"),
            "dated.jpg": ("a wall", {"keywords": "red; brick", "people": "Ann"}, "2020-01-02T03:04:05Z"),
            "bad.jpg": ({}, None),
        }
        edited = client.edit(stored["plain.jpg"]["image_id"], captions=[], tags={"people": None}, taken_at=None)
        again = send_files(url, [tmp_path])
        assert (again.duplicates, again.described) == (3, 0)
        assert edited in list(client.images())
    assert send_files(url, [tmp_path], sidecars=False).skipped == {".json files": 2, ".xmp files": 2}
