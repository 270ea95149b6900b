"""Views follow the stores from wherever they are."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from index.views.view import View
from index.views.view_writer import ViewWriter
from models.batches import Regions, Words
from models.extractors.base import Detections
from models.matching.calibration import Calibration
from models.matching.checkpoint import BadCheckpoint
from models.matching.hubness import HubnessConfig
from models.matching.hubness_banks import HubnessBanks, VectorBank
from models.matching.lazy_matcher import LazyMatcher, MatcherHeader
from models.matching.log_odds import LogOddsModel
from models.matching.matcher import Matcher
from service.worker.view_builder import PICTURES_TOGETHER, encoded_alike
from tests.support.fakes import FakeExtractor, FakeMatcher
from tests.support.pictures import encoded
from tests.support.small_matchers import small_matcher
from tests.support.small_views import embedding_of
from tests.support.worker_store import Store, noise


def test_captions_that_come_later_are_taken_up(store: Store) -> None:
    content = encoded(noise(1), "PNG")
    image_id = store.accept(content, captions=["red"])
    store.drain()
    store.accept(content, captions=["red", "blue and green"])
    store.drain()
    store.check({image_id: noise(1)})
    assert store.catalog.num_caption_slots() == 2


def test_a_view_that_is_removed_is_made_anew_while_the_worker_runs(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG"), captions=["red"]): noise(seed) for seed in range(3)}
    folder = store.folder / "views" / "fake-matcher"
    with store.worker() as (worker, _):
        while worker.run_once():
            pass
        with closing(View(folder)) as view:
            shutil.rmtree(folder)
            while worker.run_once():
                pass
            assert view.refresh()
            assert view.snapshot().counts == (3, 3)
        store.check(pictures)
        shutil.rmtree(folder.parent)
        pictures[store.accept(encoded(noise(3), "PNG"))] = noise(3)
        while worker.run_once():
            pass
    store.check(pictures)


class ShortSighted(FakeMatcher):
    """Finds no word in some captions."""

    def words(self, sentence: str) -> list[str]:
        if sentence == "unspeakable":
            raise ValueError("no word")
        return super().words(sentence)


def test_a_caption_that_a_model_cannot_read_holds_nothing_up(store: Store) -> None:
    store.accept(encoded(noise(1), "PNG"), captions=["red", "unspeakable", "blue"])
    store.drain(matchers=[ShortSighted()])
    view = View(store.folder / "views" / "fake-matcher")
    assert view.snapshot().counts == (1, 3)
    assert [len(words) for words in view.snapshot().read_captions([0, 1, 2])] == [3, 3, 3]
    view.close()


@pytest.mark.parametrize(("stage_one_weight", "stage_one_text_weight"), [(0.0, 0.0), (0.7, 0.0), (0.7, 0.4)])
def test_what_is_taken_off_a_hub_is_kept_to_the_last_digit(
    store: Store, stage_one_weight: float, stage_one_text_weight: float
) -> None:
    line = LogOddsModel(1.0, 0.0)
    hubness = HubnessConfig(
        image_weight=0.5,
        text_weight=0.5,
        neighbours=2,
        stage_one_weight=stage_one_weight,
        stage_one_text_weight=stage_one_text_weight,
    )
    bank = VectorBank.quantise(torch.randn(3, 1, 8, generator=torch.Generator().manual_seed(1)))
    calibration = Calibration(text=line, image=line, hubness=hubness)
    matcher = small_matcher("scan-t2i-avg").with_calibration(calibration, HubnessBanks(bank))
    matcher.digest = "calibrated"
    for seed in range(3):
        store.accept(encoded(noise(seed), "PNG"))
    store.drain(matchers=[matcher])
    view = View(store.folder / "views" / "calibrated")
    kept = view.snapshot().read_images(range(3))
    assert kept["hubness"].dtype == np.float32
    assert len({*kept["hubness"].tolist()}) == 3
    sentences = Words(bank.dequantise(), torch.ones(3, 1, dtype=torch.bool))
    typical = matcher.pooled.embed_texts(sentences).detach().numpy()
    embeddings = np.stack([embedding_of(view.snapshot(), row) for row in range(3)])
    cosines = np.sort(embeddings[:, : typical.shape[1]] @ typical.T)
    np.testing.assert_allclose(kept["hubness"], 0.5 * cosines[:, 1:].mean(1), rtol=2e-3)
    further = embeddings[:, typical.shape[1] :]
    assert further.shape == (3, hubness.extra_dim)
    assert (further[:, 1:] == 1).all()
    np.testing.assert_allclose(further[:, :1].sum(1), -stage_one_weight * cosines[:, 1:].mean(1), rtol=2e-3)
    view.close()


def test_shortlists_of_both_directions_are_corrected_for_pictures_and_sentences(store: Store) -> None:
    line = LogOddsModel(1.0, 0.0)
    hubness = HubnessConfig(
        image_weight=0.0, text_weight=0.0, neighbours=2, stage_one_weight=0.7, stage_one_text_weight=0.4
    )
    generator = torch.Generator().manual_seed(1)
    banks = HubnessBanks(*(VectorBank.quantise(torch.randn(3, 1, 8, generator=generator)) for _ in range(2)))
    matcher = small_matcher("scan-t2i-avg").with_calibration(Calibration(text=line, image=line, hubness=hubness), banks)
    matcher.digest = "calibrated"
    captions = ["red", "blue", "green black"]
    for seed, caption in enumerate(captions):
        store.accept(encoded(noise(seed), "PNG"), captions=[caption])
    store.drain(matchers=[matcher])
    view = View(store.folder / "views" / "calibrated")
    snapshot = view.snapshot()
    pictures = torch.from_numpy(np.stack([embedding_of(snapshot, row) for row in range(3)]))
    sentences = matcher.encode_sentences(captions)[1]
    products = (sentences @ pictures.T).numpy()
    for direction, queries, expected in (
        (snapshot.images, sentences, products),
        (snapshot.captions, pictures, products.T),
    ):
        scores, rows = direction.search(queries.numpy(), 3)
        np.testing.assert_array_equal(rows, np.argsort(-expected, axis=1))
        np.testing.assert_allclose(scores, -np.sort(-expected, axis=1), atol=1e-6)
    view.close()


class Idle(FakeExtractor):
    """Must not be asked."""

    def extract(self, pictures: Sequence[PIL.Image.Image]) -> Detections:
        raise AssertionError("there is nothing to detect")


def test_a_new_models_view_is_built_without_new_detection(store: Store) -> None:
    pictures = {store.accept(encoded(noise(seed), "PNG"), captions=["red"]): noise(seed) for seed in range(6)}
    store.drain(matchers=[])
    other = FakeMatcher(name="other", digest="other-matcher")
    with store.worker(Idle(), [FakeMatcher(), other]) as (worker, _):
        while worker.run_once():
            pass
    store.check(pictures)
    store.check(pictures, other)


def test_a_view_that_is_asked_for_is_built_by_a_model_read_then_and_one_that_cannot_be_stops_nobody(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, odd = (FakeMatcher(name, f"{name}-matcher") for name in ("good", "bad", "odd"))
    shape = {"layout": {"x": (3,)}, "embed_dim": 7, "word_dim": 2, "extractor": "fake-extractor"}
    ViewWriter(store.folder / "views" / odd.digest, digest=odd.digest, **shape).close()  # type: ignore[arg-type]

    def damaged() -> Matcher:
        raise BadCheckpoint("model.safetensors is damaged")

    reads = {good: lambda: good, bad: damaged, odd: lambda: odd}
    on_request = [LazyMatcher(MatcherHeader.of(model), read) for model, read in reads.items()]
    store.accept(encoded(noise(1), "PNG"))
    store.drain(on_request=on_request)
    assert [one.loaded for one in on_request] == [False] * 3
    for model in (odd, bad, good):
        store.catalog.processes.request_view(model.digest, 0.0)
    store.accept(encoded(noise(2), "PNG"))
    store.drain(on_request=on_request)
    assert [one.loaded for one in on_request] == [True, False, True]
    assert "the view of bad is not built before the worker starts again" in caplog.text
    assert "the view of odd is not built before the worker starts again" in caplog.text
    assert not (store.folder / "views" / "bad-matcher").exists()
    for digest in ("fake-matcher", "good-matcher"):
        view = View(store.folder / "views" / digest)
        assert view.snapshot().counts.images == 2
        view.close()


@pytest.mark.parametrize("count", [1, PICTURES_TOGETHER, PICTURES_TOGETHER + 3])
def test_pictures_are_encoded_as_many_at_once_whatever_their_number(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    matcher, seen = FakeMatcher(), list[int]()
    encode = matcher.encode_regions

    def noted(regions: Regions) -> Any:
        seen.append(len(regions.mask))
        return encode(regions)

    drawn = torch.rand(count, 3, matcher.feature_dim, generator=torch.Generator().manual_seed(1))
    regions = Regions(drawn, torch.tensor([True, True, False]).expand(count, 3))
    expected, embeddings = encode(regions)
    monkeypatch.setattr(matcher, "encode_regions", noted)
    images, found = encoded_alike(matcher, regions)
    assert set(seen) == {PICTURES_TOGETHER}
    assert torch.equal(found, embeddings)
    fields = images.tensors()
    assert all(torch.equal(fields[name], tensor) for name, tensor in expected.tensors().items())


def test_numbers_too_large_for_a_view_are_named_and_one_made_anew_has_room(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    matcher = small_matcher("scan-t2i-avg", unit_regions=False)
    matcher.digest = "long"
    with torch.no_grad():
        matcher.reranker.get_parameter("region_encoder.fc.bias").fill_(1000)
    store.accept(encoded(noise(1), "PNG"))
    with monkeypatch.context() as earlier:
        earlier.setattr(matcher, "wide_fields", ())
        store.drain(matchers=[matcher, FakeMatcher()])
    folder = store.folder / "views" / "long"
    assert caplog.text.count("gram of a picture hold") == 1
    with closing(View(store.folder / "views" / FakeMatcher().digest)) as other:
        assert other.snapshot().counts.images == 1, "it stops no other view"
    store.drain(matchers=[matcher])
    assert caplog.text.count("gram of a picture hold") == 2
    assert f"or remove {folder}, " in caplog.text
    shutil.rmtree(folder)
    store.drain(matchers=[matcher])
    with closing(View(folder)) as view:
        assert (view.snapshot().read_images([0])["gram"] > 65504).any()


def test_a_view_that_has_no_room_for_a_picture_made_again_stops_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    matcher, other = small_matcher("scan-t2i-avg", unit_regions=False), FakeMatcher()
    matcher.digest = "long"
    monkeypatch.setattr(matcher, "wide_fields", ())
    store.accept(encoded(noise(1), "PNG"))
    with store.worker(matchers=[matcher, other]) as (worker, _):
        while worker.run_once():
            pass
        with torch.no_grad():
            matcher.reranker.get_parameter("region_encoder.fc.bias").fill_(1000)
        worker._views.replace_images([0], worker._slab)
        assert "gram of a picture hold" in caplog.text
        store.accept(encoded(noise(2), "PNG"))
        while worker.run_once():
            pass
        assert worker._views.all_have(2), "what has stopped is not waited for"
    assert caplog.text.count("gram of a picture hold") == 1
