"""Caption files of every layout, read by one reader."""

import json
from pathlib import Path

import pytest

from models.datasets.captions import (
    CaptionLine,
    captioned_photographs,
    has_word,
    iter_captions,
    read_captions,
    read_lines,
    read_sentences,
)
from models.text.pretrained_reader import shipped_reader
from models.text.reader import readable


def test_captions_are_read_by_split_and_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "captions.jsonl"
    file.write_text('{"image": "a.jpg", "captions": ["one"], "split": "dev"}\n{"image": "b.jpg", "captions": []}\n')
    assert [line.image for line in read_captions(file, "dev")] == ["a.jpg"]
    assert len(read_captions(file)) == 2
    with pytest.raises(ValueError, match="no picture in split 'test': its splits are dev"):
        read_captions(file, "test")
    file.write_text('{"image": "a.jpg", "captions": ["one"]}\n')
    with pytest.raises(ValueError, match="no picture in split 'dev': no line has a \"split\""):
        read_captions(file, "dev")
    file.write_text('{"image": "a.jpg", "captions": ["one"]}\n{"picture": 3}\n')
    with pytest.raises(ValueError, match=r"captions\.jsonl:2"):
        read_captions(file)


@pytest.mark.parametrize(
    "line",
    [
        {"image": "a.jpg", "captions": "a dog"},  # would be five captions of a letter each
        {"image": "a.jpg", "captions": ["a dog", 3]},
        {"image": "a.jpg", "captions": ["a dog", " "]},
        {"image": 7, "captions": ["a dog"]},
        {"image": "a.jpg"},
        ["a.jpg", ["a dog"]],
    ],
)
def test_a_line_of_anything_but_a_picture_and_its_sentences_is_named(line: object, tmp_path: Path) -> None:
    file = tmp_path / "captions.jsonl"
    file.write_text(json.dumps({"image": "b.jpg", "captions": ["b"]}) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(ValueError, match=r"captions\.jsonl:2: expected"):
        read_captions(file)


def test_a_caption_may_hold_what_ends_lines_elsewhere(tmp_path: Path) -> None:
    text = json.dumps({"image": "a.jpg", "captions": ["a\u2028b\x85"]}, ensure_ascii=False)
    (tmp_path / "captions.jsonl").write_bytes(f"{text}\r\n{text}".encode())
    assert list(iter_captions(tmp_path / "captions.jsonl")) == [CaptionLine("a.jpg", ("a\u2028b\x85",))] * 2


def test_a_file_without_lines_has_no_picture(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").touch()
    assert list(iter_captions(tmp_path / "captions.jsonl")) == []
    with pytest.raises(ValueError, match=r"captions\.jsonl has no picture"):
        read_captions(tmp_path / "captions.jsonl")


def test_sentences_are_read_from_lines_of_a_split_from_coco_and_from_text(tmp_path: Path) -> None:
    lines = [{"image": "1", "captions": ["one", "two"], "split": "train"}, {"image": "2", "captions": ["three"]},
             {"image": "3", "captions": ["four"], "split": "test"}]  # fmt: skip
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "c.json").write_text(json.dumps({"annotations": [{"caption": "one"}, {"caption": "two"}]}))
    (tmp_path / "c.txt").write_text("one\n\u200d\n\ntwo\n")
    assert read_sentences(tmp_path / "c.jsonl") == ["one", "two", "three"]
    assert read_sentences(tmp_path / "c.json") == read_sentences(tmp_path / "c.txt") == ["one", "two"]
    for bad in ("[1]", '{"annotations": [{"caption": 3}]}'):
        (tmp_path / "bad.json").write_text(bad)
        with pytest.raises(ValueError, match="annotations"):
            read_sentences(tmp_path / "bad.json")


def test_a_caption_is_a_line_whatever_else_ends_lines_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "caps.txt").write_bytes("a \u2028b\x0bc\r\n  d  \nno line feed at the end".encode())
    assert read_lines(tmp_path / "caps.txt") == ["a \u2028b\x0bc", "d", "no line feed at the end"]
    (tmp_path / "caps.txt").write_text("a\n \nb\n")
    with pytest.raises(ValueError, match=r"caps\.txt:2: an empty line"):
        read_lines(tmp_path / "caps.txt")
    (tmp_path / "caps.txt").write_text("a\nb\n\ufeff\n")
    with pytest.raises(ValueError, match=r"caps\.txt:3: a line of invisible characters"):
        read_lines(tmp_path / "caps.txt")


def test_readers_find_a_word_where_one_is_said_to_be() -> None:
    reader = shipped_reader()
    for text in (
        *("!", "7", "é", "\u4e2d", "\U0001f600", "\U0001fabf", "$", "\u200b", "\u0301", "\ufffd", "\ue000", " \xad"),
    ):
        assert (readable(reader.tokens, text) == text) == has_word(text), ascii(text)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "count"),
    [("coco_precomp/testall", 25000), ("f30k_precomp/test", 5000), ("f30k_precomp/dev", 5070)],
)
def test_the_authors_caption_files_have_their_number_of_captions(name: str, count: int, data_dir: Path) -> None:
    assert len(read_lines(data_dir / "scan-precomp-text" / "data" / f"{name}_caps.txt")) == count


def test_a_folder_of_pictures_is_checked_before_anything_is_made_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    lines = [CaptionLine("a.jpg", ("one",)), CaptionLine("a.jpg", ("two",))]
    assert captioned_photographs(tmp_path, lines) == {"a.jpg": tmp_path / "a.jpg"}
    with pytest.raises(ValueError, match=r"lacks 1 of 2 captioned pictures, as b\.jpg"):
        captioned_photographs(tmp_path, [*lines, CaptionLine("b.jpg", ("three",))])
    (tmp_path / "inside").mkdir()
    with pytest.raises(ValueError, match=rf"lacks 1 of 1 captioned pictures, as a\.jpg: it is in {tmp_path}$"):
        captioned_photographs(tmp_path / "inside", lines)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "the line is empty"),
        (b'{"image": "b.jpg"', "the line is no JSON"),
        (b"[]", "the line names no image"),
        (b'{"image": "b.jpg"}', "the line has no list of captions"),
        (b'{"image": "b.jpg", "captions": ["", " "]}', "the line has a caption without a word"),
        (rb'{"image": "b.jpg", "captions": ["a", "\u200b\ufe0f"]}', r":2: the caption '\u200b\ufe0f' has no word"),
        (b'{"image": "\xe9.jpg", "captions": ["a"]}', "is not UTF-8 text"),
        (b'{"image": "a.jpg", "captions": ["another"]}', "a.jpg comes twice"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, line: bytes, words: str) -> None:
    file = tmp_path / "captions.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"image": "a.jpg", "captions": ["one"]}\n' + line + b"\n")
    with pytest.raises(ValueError, match=r"captions\.jsonl") as fault:
        read_captions(file)
    assert words in str(fault.value)


def test_a_mark_that_editors_put_before_utf_8_is_none_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_bytes(b"\xef\xbb\xbfa dog\n")
    assert read_lines(tmp_path / "captions.txt") == ["a dog"]
