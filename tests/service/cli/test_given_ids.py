"""Ids that come by standard input, where `-` stands in the place of them."""

import io
import sys

import pytest

from service.cli.given_ids import ids_given
from service.errors import UserError


def test_a_hyphen_reads_ids_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("b a\nb\n"))
    assert ids_given(["-"]) == ["b", "a"]
    assert ids_given(["a", "-", "a"]) == ["a", "-"]


def test_a_closed_standard_input_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert ids_given(["a"]) == ["a"]
    with pytest.raises(UserError, match="standard input is closed"):
        ids_given(["-"])


def test_what_is_no_text_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    with pytest.raises(UserError, match="standard input: 'utf-8' codec can't decode"):
        ids_given(["-"])
