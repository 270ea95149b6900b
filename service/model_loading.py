"""Loads the models that settings name; model_names.py says how they name them."""

from collections.abc import Sequence
from pathlib import Path

from models.matching.checkpoint import load_matcher
from models.matching.ensemble import build_ensemble
from models.matching.matcher import Matcher, SingleMatcher
from service.errors import Misconfigured
from service.model_names import ensemble_members, model_name, weights_folders


def load_models(entries: Sequence[str], device: str) -> dict[str, Matcher]:
    """The models that the entries name, by name and in their order.

    Misconfigured for what does not exist or cannot be loaded, for one name of two models, and for members of an
    ensemble that do not go together.
    """
    folders = weights_folders(entries)
    loaded: dict[Path, SingleMatcher] = {}

    def load(name: str) -> SingleMatcher:
        folder = folders[name]
        if folder not in loaded:  # a model that is served alone and in an ensemble is loaded once
            loaded[folder] = load_matcher(folder, device)
        return loaded[folder]

    def load_entry(entry: str) -> Matcher:
        name = model_name(entry)
        try:
            return build_ensemble([load(member) for member in ensemble_members(entry) or [name]])
        except ValueError as fault:
            raise Misconfigured(f"{name}: {fault}") from fault

    return {model_name(entry): load_entry(entry) for entry in entries}


def load_model(entry: str, device: str) -> Matcher:
    """The one model that an entry names. Misconfigured."""
    return next(iter(load_models([entry], device).values()))
