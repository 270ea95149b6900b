"""Every model learns a small synthetic set by heart, by one of its recipes; the others lower their loss.

REGARD_RECIPES=all asks for every recipe, here and in test_resume.py, which a daily run has no time for.
"""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.evaluate import evaluate
from models.matching.checkpoint import BadCheckpoint, load_matcher
from models.matching.single_matcher import SingleMatcher
from models.training.recipes import RECIPES, Recipe
from models.training.trainer import Training
from tests.support.shape_checks import checked_at_first
from tests.support.small_trainings import NOUNS, knows_by_heart, learn_by_heart, small, synthetic


def learnt_set(name: str) -> CaptionedFeatures:
    """The set that a recipe learns by heart; half of it for a model that takes far longer for a pair than others."""
    return synthetic(24 if RECIPES[name].model == "camp" else 48)


@cache
def learned(name: str) -> SingleMatcher:
    """A recipe's result on its set, after the recipes that it goes on from; test_resume.py checks its shapes."""
    data, recipe = learnt_set(name), RECIPES[name]
    initial = learned(recipe.starts_from) if recipe.starts_from else None
    with TemporaryDirectory() as folder:
        learn_by_heart(Training(small(recipe), data, data, Path(folder), "cpu", initial))
        return load_matcher(Path(folder) / "best")


# Recipes that differ in nothing but sizes are one recipe here.
# Those with pretrained text are tried in test_pretrained_text.py.
LEARNT = [name for name, recipe in RECIPES.items() if recipe.text == "gru"]
DISTINCT = list({repr(small(RECIPES[name])): name for name in sorted(LEARNT, reverse=True)}.values())
# Of each model's the last by name, that of the smallest data set, and those that go on from the weights of another.
ONE_A_MODEL = {(RECIPES[name].model, bool(RECIPES[name].starts_from)): name for name in sorted(DISTINCT)}.values()
TRIED = sorted(DISTINCT if os.environ.get("REGARD_RECIPES") == "all" else ONE_A_MODEL)

SHORT = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=1, warmup_steps=1)
STEPS = small(RECIPES["scan-t2i-avg-f30k"], width=8, batch=16, epochs=4, feature_dropout=0.2)
CYCLE = replace(STEPS, decay_after=None, learning_rate=0.0, patience=2)
STEPS = replace(STEPS, decay_after=(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_recipe_learns_a_small_set_by_heart(name: str) -> None:
    report = evaluate(learned(name), learnt_set(name), shortlists=(10,)).report
    assert knows_by_heart(report), report


@pytest.mark.parametrize("name", sorted(set(DISTINCT) - set(ONE_A_MODEL)))
def test_another_recipe_of_a_model_lowers_its_loss(name: str, tmp_path: Path) -> None:
    recipe, losses = RECIPES[name], list[float]()
    data, initial = synthetic(24), learned(recipe.starts_from) if recipe.starts_from else None
    short = small(recipe, epochs=4, batch=12, warmup_steps=0, save_every=1000, validate_images=8)

    def log(entry: dict[str, Any]) -> None:
        if "ranking" in entry:
            losses.append(entry["ranking"])

    with checked_at_first(log) as told:
        Training(short, data, data, tmp_path, "cpu", initial).run(told)
    third = len(losses) // 3
    assert len(losses) >= 20
    assert np.mean(losses[-third:]) < np.mean(losses[:third])


def test_a_training_goes_on_from_the_weights_of_another(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = small(RECIPES["camp-released-fusion-f30k"], epochs=1)
    first = small(RECIPES["camp-released-attention-f30k"], epochs=0, warmup_steps=1)
    initial = Training(first, data, data, tmp_path / "a").matcher
    training = Training(recipe, data, data, tmp_path / "b", initial=initial)
    before = {name: weight.clone() for name, weight in training.matcher.state_dict().items()}
    for name, weight in initial.state_dict().items():
        assert torch.equal(before[name], weight), name
    training.run(lambda _: None)
    for name, weight in training.matcher.reranker.named_parameters():
        assert torch.equal(before[f"reranker.{name}"], weight) is not name.startswith(recipe.trained), name


def test_weights_that_are_missing_or_do_not_belong_are_refused(tmp_path: Path) -> None:
    data = synthetic(24)
    with pytest.raises(ValueError, match="starts from camp-released-attention-f30k"):
        Training(small(RECIPES["camp-released-fusion-f30k"]), data, data, tmp_path)
    scan = Training(small(RECIPES["scan-t2i-avg-f30k"]), data, data, tmp_path).matcher
    with pytest.raises(ValueError, match="starts from random weights"):
        Training(small(RECIPES["scan-t2i-avg-f30k"]), data, data, tmp_path, initial=scan)
    caan = Training(small(RECIPES["caan-f30k"]), data, data, tmp_path).matcher
    recipe = small(RECIPES["scan-t2i-avg-f30k"], starts_from="caan-f30k")
    with pytest.raises(ValueError, match=r"scan-t2i-avg has no place for reranker\.affinity\.weight"):
        Training(recipe, data, data, tmp_path, initial=caan)


def test_parts_that_a_model_has_not_are_refused(tmp_path: Path) -> None:
    data = synthetic(24)
    with pytest.raises(ValueError, match="trained: scan-t2i-avg has no part scorer, x; it has: "):
        Training(small(RECIPES["scan-t2i-avg-f30k"], trained=("x", "scorer.weight")), data, data, tmp_path)


def test_a_training_begun_before_a_recipe_had_a_field_goes_on(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = SHORT
    Training(recipe, data, data, tmp_path).run(lambda _: None)
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    del state["recipe"]["momentum"]
    torch.save(state, tmp_path / "last.pt")
    again = Training(recipe, data, data, tmp_path)
    again.resume()
    assert again.step == again.total_steps


def test_a_finished_trainings_best_weights_are_whole_or_it_says_that_they_are_not(tmp_path: Path) -> None:
    data, config = synthetic(24), tmp_path / "best" / "config.json"
    recipe = SHORT

    def finished() -> Training:
        training = Training(recipe, data, data, tmp_path)
        training.run(lambda _: None)
        return training

    digest = load_matcher(finished().out / "best").digest
    assert not finished().mend_best()
    config.write_bytes(b"")
    finished()
    assert load_matcher(tmp_path / "best").digest == digest
    training = finished()
    training.early_stopping.num_stale = 1  # as after a validation that was worse
    training.checkpoint.save(training.step)
    config.unlink()
    with pytest.raises(BadCheckpoint, match=r"config\.json missing.*The last weights are others"):
        finished()


@pytest.mark.parametrize(
    ("first", "recipe"), [({"epochs": 2}, STEPS), ({"most_steps": 7}, STEPS), ({"patience": 1}, CYCLE)]
)
def test_two_epochs_and_two_more_are_four(tmp_path: Path, first: dict[str, Any], recipe: Recipe) -> None:
    def trained(out: Path, **changes: Any) -> Training:
        training = Training(replace(recipe, **changes), data := synthetic(27), data, out)
        training.run(lambda _: None)
        return training

    whole, begun, extended = trained(tmp_path), trained(tmp_path / "run", **first), trained(tmp_path / "run")
    assert 2 < begun.step < extended.step == whole.step
    for name, weight in extended.average.state_dict().items():
        assert torch.equal(weight, whole.average.state_dict()[name]), name
    if "most_steps" not in first:  # its end was validated besides
        assert extended.early_stopping == whole.early_stopping
    with pytest.raises(ValueError, match="one cycle over" if recipe is CYCLE else "would end after"):
        trained(tmp_path / "run", epochs=1)


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = SHORT
    Training(recipe, data, data, tmp_path, "cpu").run(lambda _: None)
    with pytest.raises(ValueError, match="another recipe"):
        Training(replace(recipe, seed=1), data, data, tmp_path, "cpu").run(lambda _: None)
    other = replace(data, extractor_digest="another")
    with pytest.raises(ValueError, match="begun on other features, of synthetic"):
        Training(recipe, other, other, tmp_path, "cpu").run(lambda _: None)


def test_a_training_goes_on_with_the_same_captioned_pictures_alone(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = SHORT
    Training(recipe, data, data, tmp_path).run(lambda _: None)
    turned = replace(data, captions=data.captions[::-1], rows=data.rows[::-1])
    for other in (replace(data, captions=data.captions[::-1]), replace(data, rows=data.rows[::-1]), turned):
        with pytest.raises(ValueError, match=r"begun on other captioned pictures, of .*choose another folder"):
            Training(recipe, other, data, tmp_path).resume()
    with pytest.raises(ValueError, match="begun on other dev pictures"):
        Training(recipe, data, data.first(20), tmp_path).resume()
    others = replace(data, features=data.features.copy())
    others.features[5] *= 3
    with pytest.raises(ValueError, match="begun on other vectors of regions"):
        Training(recipe, others, data, tmp_path).resume()
    with pytest.raises(ValueError, match="begun on other vectors of dev regions"):
        Training(recipe, data, others, tmp_path).resume()
    again = Training(recipe, data, data, tmp_path)
    again.resume()
    assert again.is_finished


def test_a_training_goes_on_from_the_same_weights_and_word_vectors_alone(tmp_path: Path) -> None:
    data, out, (one, other) = synthetic(24), tmp_path / "run", (tmp_path / name for name in ("one.txt", "other.txt"))
    for path, value in ((one, "0.5"), (other, "0.25")):
        path.write_text(f"{NOUNS[0]} {' '.join([value] * 16)}\n")
    recipe = SHORT
    Training(recipe, data, data, out, word_vectors=one).run(lambda _: None)
    for vectors in (other, None):
        with pytest.raises(ValueError, match="begun on other word vectors"):
            Training(recipe, data, data, out, word_vectors=vectors).resume()
    Training(recipe, data, data, out, word_vectors=one).resume()

    first = small(RECIPES["camp-released-attention-f30k"], epochs=0, warmup_steps=1)
    starts = [Training(replace(first, seed=seed), data, data, tmp_path / str(seed)).matcher for seed in range(2)]
    later = small(RECIPES["camp-released-fusion-f30k"], epochs=1)
    Training(later, data, data, tmp_path / "later", initial=starts[0]).run(lambda _: None)
    with pytest.raises(ValueError, match="begun on other weights to start from"):
        Training(later, data, data, tmp_path / "later", initial=starts[1]).resume()
    Training(later, data, data, tmp_path / "later", initial=starts[0]).resume()
    with pytest.raises(ValueError, match="weights to go on from, have no word vectors to start"):
        Training(later, data, data, tmp_path / "words", initial=starts[0], word_vectors=one)


def test_a_training_starts_from_word_vectors_and_goes_on_only_with_the_same(tmp_path: Path) -> None:
    data, vectors = synthetic(24), tmp_path / "v.txt"
    numbers = " ".join(["0.5"] * 16)
    vectors.write_text(f"{NOUNS[0]} {numbers}\nthing {numbers}\n")
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=1, warmup_steps=1, near=0.5)
    with pytest.raises(ValueError, match="give word vectors"):
        Training(recipe, data, data, tmp_path / "run")
    entries: list[dict[str, Any]] = []
    training = Training(recipe, data, data, tmp_path / "run", word_vectors=vectors)
    embedded = training.matcher.reranker.get_parameter("sentence_encoder.embed.weight")
    assert (embedded[training.matcher.vocabulary.ids[NOUNS[0]]] == 0.5).all()
    training.run(entries.append)
    assert entries[0] == {
        "step": 0,
        "steps": training.total_steps,
        "words": len(training.matcher.vocabulary),
        "found": 1,
    }
    assert load_matcher(tmp_path / "run" / "best").read_as("thing") == {"thing": NOUNS[0]}
    vectors.write_text(f"{NOUNS[0]} {numbers}\nanother {numbers}\n")
    with pytest.raises(ValueError, match="other captions or word vectors"):
        Training(recipe, data, data, tmp_path / "run", word_vectors=vectors).resume()


def test_a_training_that_no_longer_improves_stops_and_keeps_the_best(tmp_path: Path) -> None:
    data, entries = synthetic(24), list[dict[str, Any]]()
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], warmup_steps=0, epochs=9, patience=2, learning_rate=0.0)
    training = Training(recipe, data, data, tmp_path)
    training.run(entries.append)
    validated = [entry["step"] for entry in entries if "validation" in entry]
    assert validated == [training.steps_per_epoch * epoch for epoch in (1, 2, 3)]  # the best, and two in vain
    assert training.step == validated[-1] < training.total_steps
    assert load_matcher(tmp_path / "best").name == "scan-t2i-avg"


@pytest.mark.parametrize(("bits", "width"), [(8, 8), (32, 20)])
def test_what_is_validated_is_what_is_kept(tmp_path: Path, bits: Any, width: int) -> None:
    data, entries = synthetic(24), list[dict[str, Any]]()
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=2, warmup_steps=1, width=width, weight_bits=bits)
    training = Training(recipe, data, data, tmp_path)
    matcher = training.run(entries.append)
    kept = load_matcher(tmp_path / "best")
    (best,) = [one["validation"] for one in entries if "validation" in one and one["validation"]["digest"]][-1:]
    assert best["digest"] == kept.digest
    assert best == evaluate(kept, data, shortlists=(100,)).report
    weight = "reranker.region_encoder.fc.weight"
    assert torch.equal(matcher.state_dict()[weight], kept.state_dict()[weight]) is (bits == 32)
    steps = [entry for entry in entries if "validation" not in entry]
    rates = {entry["learning_rate"] for entry in steps}
    assert len(rates) == len(steps)
    assert 0.9 < max(rates) / recipe.learning_rate <= 1
    assert all(entry["seconds"] > 0 and entry["gradient_norm"] > 0 for entry in steps)


def test_a_training_that_is_cut_within_an_epoch_is_validated_at_its_end(tmp_path: Path) -> None:
    data, entries = synthetic(24), list[dict[str, Any]]()
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], warmup_steps=1, epochs=9, batch=8, most_steps=14, save_every=7)
    training = Training(recipe, data, data, tmp_path)
    training.run(entries.append)
    assert training.steps_per_epoch == 9
    assert [entry["step"] for entry in entries if "validation" in entry] == [10, 14]
    again = Training(recipe, data, data, tmp_path)
    again.resume()
    assert again.is_finished


def test_a_seed_decides_the_weights(tmp_path: Path) -> None:
    data = synthetic(24)
    weights = []
    for turn, seed in enumerate((1, 1, 2)):
        recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=1, warmup_steps=1, word_dropout=0.2, seed=seed)
        matcher = Training(recipe, data, data, tmp_path / str(turn)).run(lambda _: None)
        weights.append(torch.cat([weight.flatten() for weight in matcher.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_gradients_are_no_longer_than_the_recipe_lets_them(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = small(RECIPES["scan-t2i-avg-f30k"], optimizer="sgd", momentum=0.5, learning_rate=1.0, clip=1e-3, epochs=1)
    training = Training(replace(recipe, warmup_steps=0, decay_after=()), data, data, tmp_path)
    rows, sentences = next(data.batches(recipe.batch, 0))
    before = torch.cat([weight.detach().flatten().clone() for weight in training.matcher.parameters()])
    training._train_step(rows, sentences)
    after = torch.cat([weight.detach().flatten() for weight in training.matcher.parameters()])
    assert float((after - before).norm()) == pytest.approx(1.5e-3, rel=0.01)  # Nesterov's first step adds a half


def test_the_weights_of_another_model_are_no_start(tmp_path: Path) -> None:
    data = synthetic(24)
    scan = Training(small(RECIPES["scan-t2i-avg-f30k"]), data, data, tmp_path).matcher
    with pytest.raises(ValueError, match="starts from camp-released-attention-f30k, and these are weights of scan"):
        Training(small(RECIPES["camp-released-fusion-f30k"]), data, data, tmp_path, initial=scan)


def test_the_weights_for_other_features_are_no_start(tmp_path: Path) -> None:
    data = synthetic(24)
    first = small(RECIPES["camp-released-attention-f30k"], epochs=0, warmup_steps=1)
    initial = Training(first, data, data, tmp_path / "a").matcher
    others = replace(data, extractor_digest="others")
    with pytest.raises(ValueError, match=f"is for features of {data.extractor_digest}, and these are of others"):
        Training(small(RECIPES["camp-released-fusion-f30k"]), others, others, tmp_path / "b", initial=initial)
    with pytest.raises(ValueError, match="has weights of other sizes than this recipe"):
        Training(small(RECIPES["camp-released-fusion-f30k"], width=24), data, data, tmp_path / "b", initial=initial)


def test_a_training_without_an_epoch_leaves_its_weights(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=0, warmup_steps=1)
    matcher = Training(recipe, data, data, tmp_path).run(lambda _: None)
    assert load_matcher(tmp_path / "best").name == matcher.name


def test_numbers_that_are_not_finite_stop_a_training(tmp_path: Path) -> None:
    data = synthetic(24)
    data.features[5, 0, 0] = np.nan
    recipe = small(RECIPES["scan-t2i-avg-flickr8k"], epochs=1, warmup_steps=0)
    with pytest.raises(ValueError, match=r"the loss of step 1 is nan: the features of picture 5 hold numbers"):
        Training(recipe, data, data, tmp_path).run(lambda _: None)
    assert not (tmp_path / "best").exists()


def test_a_picture_without_regions_is_not_learnt_from(tmp_path: Path) -> None:
    data = synthetic(24)
    data.mask[5] = False
    with pytest.raises(ValueError, match="picture 5 has no region to learn from: take it out"):
        Training(small(RECIPES["scan-i2t-lse-flickr8k"]), data, data, tmp_path)


def test_a_damaged_training_says_so(tmp_path: Path) -> None:
    data = synthetic(24)
    recipe = SHORT
    Training(recipe, data, data, tmp_path).run(lambda _: None)
    saved = (tmp_path / "last.pt").read_bytes()
    for damaged in (b"", saved[:500], saved[: len(saved) // 2]):
        (tmp_path / "last.pt").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"last\.pt is damaged"):
            Training(recipe, data, data, tmp_path).run(lambda _: None)
