"""The manifest of an upload: what it may say, and how it is told what it may not."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from service.api.schemas.changes import PictureEdit
from service.errors import InvalidRequest
from service.ingest.manifest import parse_manifest


def parsed(entry: dict[str, Any]) -> Any:
    return parse_manifest(json.dumps({"a.jpg": entry}), ["a.jpg"])["a.jpg"]


def test_captions_tags_and_dates_are_read() -> None:
    about = parsed(
        {
            "captions": [" a red ball ", "a ball"],
            "tags": {"place": "Kiel", "stars": 4, "aperture": 2.8},
            "taken_at": "2024-05-06T07:08:09+02:00",
        }
    )
    assert about.captions == ["a red ball", "a ball"]
    assert about.tags == {"place": "Kiel", "stars": 4, "aperture": 2.8}
    assert isinstance(about.tags["stars"], int)
    assert about.taken_seconds == 1714979289.0 - 7200


def test_nothing_need_be_said() -> None:
    about = parsed({})
    assert (about.captions, about.tags, about.taken_seconds) == ([], {}, None)


def test_a_year_is_dated_to_its_beginning() -> None:
    assert parsed({"taken_at": "2024"}).taken_seconds == datetime(2024, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"captions": "not a list"}, "captions"),
        ({"captions": [""]}, "captions.0"),
        ({"captions": [" \t\u001f "]}, "captions.0"),
        ({"captions": ["x" * 513]}, "captions.0"),
        ({"captions": ["x"] * 1001}, "captions"),
        ({"tags": {"seen": True}}, "tags.seen"),
        ({"tags": {"seen": None}}, "tags.seen"),
        ({"tags": {"seen": ["a"]}}, "tags.seen"),
        ({"tags": {"": "x"}}, "tags"),
        ({"taken_at": "2024-05-32"}, "taken_at"),
        ({"taken_at": "05/2024"}, "taken_at"),
        ({"taken_at": "2024-05-06T07:08:09"}, "taken_at"),
        ({"taken_at": "2024-02-30T07:08:09Z"}, "taken_at"),
        ({"taken_at": 1714979289}, "taken_at"),
        ({"caption": "misspelt"}, "caption"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(entry: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(entry)
    errors = refused.value.extra["errors"]
    assert any(error["field"].startswith(f"manifest.a.jpg.{field}") for error in errors)
    assert all(error["problem"] for error in errors)


@pytest.mark.parametrize("tag", [True, None, ["a"], {}, "x" * 513, 2**70 * 1e300])
def test_a_wrong_tag_is_told_once_and_in_words(tag: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed({"tags": {"seen": tag}})
    assert refused.value.extra["errors"] == [
        {"field": "manifest.a.jpg.tags.seen", "problem": "a tag is a text of at most 512 characters or a finite number"}
    ]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_whole_number_that_no_filter_could_ask_for_is_refused_as_a_tag(number: int) -> None:
    for name in ("tags", "default_tags"):
        with pytest.raises(InvalidRequest, match="more than 64 bits"):
            parsed({name: {"n": number}})
    with pytest.raises(ValidationError, match="more than 64 bits"):
        PictureEdit.model_validate({"tags": {"n": number}})
    kept = {"low": -(2**63), "high": 2**63 - 1, "float": float(number)}
    assert parsed({"tags": kept}).tags == kept


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a.jpg": 1}', '{"a.jpg": {"tags": {"x": NaN}}}', '"\\ud800"'])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_manifest(text, ["a.jpg"])


def test_a_file_that_was_not_sent_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"b\.jpg.*not among the files sent"):
        parse_manifest('{"a.jpg": {}, "b.jpg": {}}', ["a.jpg"])


@pytest.mark.slow
def test_names_of_endless_length_are_not_repeated_whole() -> None:
    name = "n" * 3_000_000
    for text in (json.dumps({name: {}}), json.dumps({name: {"captions": 5}}), json.dumps({"a": {name: 5}})):
        with pytest.raises(InvalidRequest) as refused:
            parse_manifest(text, ["a"])
        assert len(json.dumps(refused.value.document("x"))) < 3000


def test_two_names_that_are_one_once_composed_are_refused() -> None:
    names = [unicodedata.normalize(form, "Kühe.png") for form in ("NFC", "NFD")]
    with pytest.raises(InvalidRequest, match="differ by how their accents are composed"):
        parse_manifest(json.dumps({name: {"captions": [name]} for name in names}), names)


@pytest.mark.parametrize("field", ["tags", "default_tags"])
def test_two_tags_that_are_one_once_composed_are_refused(field: str) -> None:
    entry = {field: {unicodedata.normalize(form, "café"): form for form in ("NFC", "NFD")}}
    with pytest.raises(InvalidRequest, match=rf"a\.jpg\.{field}: two of its names differ by how their accents"):
        parsed(entry)
