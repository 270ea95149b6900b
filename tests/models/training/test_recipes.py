"""Recipes fit the models they name and each other."""

import math
import re
from dataclasses import fields
from typing import Any

import pytest

from models.rerankers.encoders import EncoderConfig
from models.rerankers.registry import RERANKERS, build
from models.training.backbone.recipe import BackboneRecipe
from models.training.detector.recipe import DetectorRecipe
from models.training.recipes import NOT_NEGATIVE, POSITIVE, RECIPES, SHARES, Recipe
from service.cli.training.recipe_changes import change_recipe
from service.errors import UserError
from tests.support.project_files import ROOT

PAPERS = {name: recipe for name, recipe in RECIPES.items() if name.endswith(("-f30k", "-coco"))}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_is_named_after_a_model_that_has_its_options_and_parts(name: str) -> None:
    recipe = RECIPES[name]
    assert name.startswith(recipe.model)
    reranker = build(recipe.model, EncoderConfig(num_words=5, feature_dim=4, word_dim=4, width=4), recipe.options)
    for part in recipe.trained:
        assert any(weight.startswith(part) for weight, _ in reranker.named_parameters())


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_rates_fall_while_there_is_something_left_to_learn(name: str) -> None:
    recipe = PAPERS[name]
    assert recipe.decay_after
    assert list(recipe.decay_after) == sorted(set(recipe.decay_after))
    assert recipe.decay_after[-1] < recipe.epochs


def test_every_model_has_recipes_for_all_data_sets() -> None:
    for data in ("flickr8k", "f30k", "coco"):
        for model in RERANKERS:
            if data != "coco" or not model.startswith("camp-released"):  # whose authors published none for COCO
                assert f"{model}-{data}" in RECIPES, "add it in models/training/recipes.py"
                assert RECIPES[f"{model}-{data}"].model == model


@pytest.mark.parametrize("name", [name for name in sorted(RECIPES) if RECIPES[name].starts_from])
def test_a_recipe_goes_on_from_one_with_the_same_vectors(name: str) -> None:
    recipe, earlier = RECIPES[name], RECIPES[str(RECIPES[name].starts_from)]
    assert (recipe.width, recipe.word_dim, recipe.embed_dim) == (earlier.width, earlier.word_dim, earlier.embed_dim)


def test_models_and_fields_are_documented() -> None:
    models, training = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("models.md", "training.md"))
    for model in RERANKERS:
        assert f"`{model}`" in models or f"`{model.rpartition('-')[0]}-avg`, `-lse`" in models, (
            f"add {model} to the table of docs/models.md"
        )
    table = training[training.index("| field |") : training.index("## What OUT holds")]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))) == {
        field.name for field in fields(Recipe)
    }


@pytest.mark.parametrize("name", [*POSITIVE, *NOT_NEGATIVE, *SHARES])
def test_numbers_that_no_training_can_go_by_are_refused(name: str) -> None:
    fractional = isinstance(getattr(Recipe(model="scan-t2i-avg"), name), float)
    for value in [-1.0, math.nan, math.inf] if fractional else [-1]:
        changed: dict[str, Any] = {name: value}
        with pytest.raises(ValueError, match=f"{name} must be"):
            Recipe(model="scan-t2i-avg", **changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("loss=foo", "loss: must be 'hinge', 'binary' or 'info_nce'"),
        ("width=abc", "width: must be an integer"),
        ("width=1.5", "width: must be an integer"),
        ("batch=1", "batch must be 2 or more, since a caption is told from those of the batch's other pictures, not 1"),
        ("word_dropout=1", "word_dropout must be 0 or more and less than 1"),
        ("decay_after=[-3]", "decay_after names epochs from 1 on"),
        ("momentum=2", "momentum must be 0 or more and less than 1"),
        ("stage_one=apart", "stage one learns apart in layers of its own, which there are none of: set embed_dim"),
        ("optimizer=adadelta", "adadelta has no momentum, which one cycle of the learning rate moves: set decay_after"),
        (
            "pooled_weight=0",
            "stage one, which a warm-up is of, learns nothing with pooled_weight=0: set warmup_steps=0",
        ),
        ("embed_dim=0", "embed_dim must be above 0, not 0"),
        (f"seed={1 << 63}", "seed must be less than 2 ** 63"),
        ("loss=binary", "the binary loss is for CAMP's models, and the score of scan-t2i-avg is no probability"),
        ("intra_margin=0.2", "intra_margin is for sman where its similarity is the sum"),
        ("steps=3", "with a name of the recipe; there are model, "),
        ("width", "write name=value"),
        ("patience=5", "--set patience=5: patience is set to 4 as well"),
    ],
)
def test_changes_that_make_no_recipe_say_what_is_wrong(change: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        change_recipe(RECIPES["scan-t2i-avg-flickr8k"], ["patience=4", change])


@pytest.mark.parametrize(
    ("name", "changes", "unread"),
    [
        ("scan-t2i-avg-flickr8k", [], ["concept_start"]),
        ("caan-flickr8k", [], ["least_count", "concept_start", "word_map", "near", "warmup_captions"]),
        ("scan-t2i-avg-flickr8k", ["warmup_steps=0", "pooled_weight=0"], ["temperature", "warmup_captions"]),
        ("bfan-equal-flickr8k-staged", [], ["least_count", "word_dim", "concept_start", "word_map"]),
    ],
)
def test_fields_that_change_nothing_are_known(name: str, changes: list[str], unread: list[str]) -> None:
    assert set(change_recipe(RECIPES[name], changes).set_aside) >= set(unread)
    read = change_recipe(RECIPES["bfan-equal-flickr8k-stage-one"], ["pooled_weight=1"]).set_aside
    assert not {"concept_start", "word_map", "temperature", "warmup_captions", "own_share"} & set(read)


def test_changes_are_taken_as_what_they_stand_for() -> None:
    recipe = change_recipe(
        RECIPES["scan-t2i-avg-flickr8k"], ["width=64", "decay_after=[3, 5]", "loss=info_nce", "near=null"]
    )
    assert (recipe.width, recipe.decay_after, recipe.loss, recipe.near) == (64, (3, 5), "info_nce", None)
    assert change_recipe(BackboneRecipe(), ["rate=1e-4"]) == BackboneRecipe(rate=1e-4)
    assert change_recipe(DetectorRecipe(), ["sides=[64, 96]"]).sides == (64.0, 96.0)


@pytest.mark.parametrize("other", [{"intra_margin": 0.2}, {"negatives": "all"}])
def test_info_nce_refuses_what_belongs_to_other_losses(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="info_nce"):
        Recipe(model="sman", loss="info_nce", **other)


@pytest.mark.parametrize("other", [{"loss": "binary"}, {"intra_margin": 0.2}])
def test_what_all_negatives_would_set_aside_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="all negatives are of the hinge alone"):
        Recipe(model="sman", negatives="all", **other)


def test_the_margin_within_pairs_goes_with_a_sum_of_cosines() -> None:
    Recipe(model="sman", intra_margin=0.2, options={"similarity": "sum"})
    with pytest.raises(ValueError, match="intra_margin is for sman where its similarity is the sum"):
        Recipe(model="sman", intra_margin=0.2, options={"similarity": "concatenation"})
