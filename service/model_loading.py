"""The weights that settings name, loaded; naming.py says how they name them."""

from collections.abc import Sequence
from pathlib import Path

from models.matching.checkpoint import WEIGHTS, load_matcher
from models.matching.ensemble import build_ensemble
from models.matching.matcher import Matcher, SingleMatcher
from service.model_names import members_of, served_name

DETECTOR = "detector"


class Misconfigured(ValueError):
    """Settings that cannot work together; the message says what to change."""


def load_models(entries: Sequence[str], device: str) -> dict[str, Matcher]:
    """What the entries stand for, by name and in their order; members of a mean may be names of other entries.

    Misconfigured for what does not exist, for one name of two, and for members that do not go together.
    """
    names = [served_name(entry) for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Misconfigured(f"two models are called {twice}; give one another name, as NAME=FOLDER")
    folders = {name: weights_folder(entry) for name, entry in zip(names, entries, strict=True) if not members_of(entry)}
    loaded: dict[Path, SingleMatcher] = {}

    def load(name: str) -> SingleMatcher:
        folder = folders.get(name) or weights_folder(name)
        if folder not in loaded:  # a model served alone and in a mean is there once
            loaded[folder] = load_matcher(folder, device)
        return loaded[folder]

    def load_entry(name: str, entry: str) -> Matcher:
        try:
            return build_ensemble([load(part) for part in members_of(entry) or [name]])
        except ValueError as fault:
            raise Misconfigured(f"{name}: {fault}") from fault

    return {name: load_entry(name, entry) for name, entry in zip(names, entries, strict=True)}


def load_model(entry: str, device: str) -> Matcher:
    """The one model that an entry stands for. Misconfigured."""
    return next(iter(load_models([entry], device).values()))


def weights_folder(entry: str) -> Path:
    """Where a single model's weights are. Misconfigured lists the shipped ones."""
    given, shipped = Path(entry), WEIGHTS / entry
    if not given.is_dir() and "=" in entry:
        given = Path(entry.partition("=")[2])
    if given.name != entry or given.is_dir():
        return given
    if entry == DETECTOR or not shipped.is_dir():
        names = sorted(path.name for path in WEIGHTS.iterdir() if path.name != DETECTOR)
        raise Misconfigured(
            f"no model called {entry} is shipped (there are {', '.join(names)}), and no such folder exists"
        )
    return shipped
