"""Matchers that are read when they are first needed: once for all who ask, and never another one than was promised."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from models.matching.calibration import Calibration
from models.matching.checkpoint import BadCheckpoint, load_matcher, read_header, save_calibration, save_matcher
from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from models.matching.log_odds import LogOddsModel
from models.matching.matcher import Matcher
from tests.support.fakes import FakeMatcher
from tests.support.small_matchers import small_matcher, small_weights


def lazy_matcher(folder: Path) -> LazyMatcher:
    """The matcher in a folder."""
    return LazyMatcher(read_header(folder), lambda: load_matcher(folder))


def test_many_who_need_it_at_once_wait_for_one_reading() -> None:
    matcher, began, may_end = FakeMatcher(), threading.Event(), threading.Event()
    readings: list[int] = []

    def read() -> Matcher:
        readings.append(threading.get_ident())
        began.set()
        may_end.wait()
        return matcher

    lazy = LazyMatcher(MatcherHeader.of(matcher), read)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(lambda: lazy.matcher) for _ in range(8)]
        began.wait()
        assert not lazy.loaded
        assert lazy.header == MatcherHeader.of(matcher)
        assert not any(one.done() for one in asked)
        may_end.set()
        assert all(one.result() is matcher for one in asked)
    assert lazy.loaded
    assert len(readings) == 1


def test_a_folder_is_read_when_it_is_needed_and_gives_the_same_scores(tmp_path: Path) -> None:
    save_matcher(small_matcher("bfan-equal"), tmp_path, torch.float32)
    lazy = lazy_matcher(tmp_path)
    assert (lazy.loaded, lazy.header.name) == (False, "bfan-equal")
    sentences = ["red green", "blue"]
    (_, expected), (_, embeddings) = (
        one.encode_sentences(sentences) for one in (small_matcher("bfan-equal"), lazy.matcher)
    )
    assert torch.equal(embeddings, expected)
    assert lazy.loaded


def test_damage_after_the_start_is_found_and_its_repair_too(tmp_path: Path) -> None:
    lazy = lazy_matcher(small_weights(tmp_path, "scan-t2i-avg"))
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-1])
    for _ in range(2):
        with pytest.raises(BadCheckpoint, match="damaged"):
            _ = lazy.matcher
    assert not lazy.loaded
    (tmp_path / "model.safetensors").write_bytes(content)
    assert lazy.matcher.digest == lazy.header.digest


def test_a_matcher_that_took_the_place_of_the_promised_one_is_refused(tmp_path: Path) -> None:
    lazy = lazy_matcher(small_weights(tmp_path, "scan-t2i-avg"))
    promised = lazy.header
    line = LogOddsModel(slope=2.0, intercept=-1.0)
    save_calibration(tmp_path, Calibration(text=line, image=line))
    with pytest.raises(ValueError, match=f"gave {promised.digest} when the process started: start it again"):
        _ = lazy.matcher
    assert (lazy.loaded, lazy.header) == (False, promised)
