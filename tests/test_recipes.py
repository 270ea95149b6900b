"""Recipes fit the models they name and each other."""

import re
from dataclasses import fields

import pytest

from models.encoders import EncoderConfig
from models.recipes import RECIPES, Recipe
from models.registry import RERANKERS, build
from tests.files import ROOT

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
                assert RECIPES[f"{model}-{data}"].model == model


@pytest.mark.parametrize("name", [name for name in sorted(RECIPES) if RECIPES[name].starts_from])
def test_a_recipe_goes_on_from_one_with_the_same_vectors(name: str) -> None:
    recipe, earlier = RECIPES[name], RECIPES[str(RECIPES[name].starts_from)]
    assert (recipe.width, recipe.word_dim, recipe.embed_dim) == (earlier.width, earlier.word_dim, earlier.embed_dim)


def test_models_and_fields_are_documented() -> None:
    models, training = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("models.md", "training.md"))
    for model in RERANKERS:
        assert f"`{model}`" in models or f"`{model.rpartition('-')[0]}-avg`, `-lse`" in models, model
    table = training[training.index("| field |") : training.index("## What OUT holds")]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))) == {
        field.name for field in fields(Recipe)
    }
