"""Names of models in settings: a shipped model, FOLDER, NAME=FOLDER, or several joined by +, whose scores are averaged.

Nothing here loads a model, so that a wrong name is refused before PyTorch is imported.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import models
from service.errors import Misconfigured

SHIPPED_WEIGHTS = Path(models.__path__[0]) / "weights"
DETECTOR = "detector"  # its folder among the shipped weights
CHECKPOINT_FILES = ("config.json", "model.safetensors", "digest")
BEST = "best"  # the subfolder of a training with its weights
VOCABULARY_FILE = "vocabulary.json"  # of a model without a sentence encoder in its config.json


def model_name(entry: str) -> str:
    """The name under which the model of a settings entry is served; by default that of its folder."""
    if members := ensemble_members(entry):
        return "+".join(map(model_name, members))
    name, equals, _ = entry.partition("=")
    return name if equals and not Path(entry).is_dir() else Path(entry).absolute().name


def shown_name(entry: str) -> str:
    """The displayed name of a model: for the `best` of a training, with the training's folder before it."""
    if members := ensemble_members(entry):
        return "+".join(map(shown_name, members))
    folder = Path(entry).absolute()
    return "/".join(folder.parts[-2:]) if folder.name == BEST and folder.is_dir() else model_name(entry)


def ensemble_members(entry: str) -> list[str]:
    """The entries of an ensemble's members; empty for a single model. Misconfigured for a malformed list."""
    if Path(entry).is_dir() or "+" not in entry.partition("=")[0]:
        return []
    members = [member.strip() for member in entry.split("+")]
    if not all(members):
        raise Misconfigured(f"{entry} is the mean of models, and one beside a + has no name")
    if len(set(members)) < len(members):
        raise Misconfigured(f"{entry} is the mean of models, and names one of them twice")
    return members


def weights_folder(entry: str) -> Path:
    """The folder of a single model's weights. Misconfigured where it is neither shipped nor a folder."""
    folder, shipped = Path(entry), SHIPPED_WEIGHTS / entry
    if not folder.is_dir() and "=" in entry:
        folder = Path(entry.partition("=")[2])
        if not folder.is_dir():
            raise Misconfigured(f"{entry}: NAME=FOLDER names a folder of weights, and there is no folder {folder}")
    if folder.name != entry or folder.is_dir():
        return folder
    if not _is_model(shipped):
        names = ", ".join(shipped_models())
        raise Misconfigured(f"no model called {entry} is shipped (there are {names}), and no such folder exists")
    return shipped


def shipped_models() -> list[str]:
    """The names of the matching models included in the project."""
    return sorted(path.name for path in SHIPPED_WEIGHTS.iterdir() if _is_model(path))


def loading_advice(name: str, loaded: Sequence[str]) -> str:
    """Advice on serving a shipped model, or an ensemble of them, besides those `loaded`; "" for any other name."""
    if name in loaded or not set(name.split("+")) <= set(shipped_models()):
        return ""
    value = ",".join([*loaded, name])
    return f"The model {name} comes with Regard but is not served here: start the service with REGARD_MODELS={value}."


def _is_model(folder: Path) -> bool:
    """Whether a shipped folder holds a matching model, rather than a detector, a backbone or a sentence encoder."""
    return _has_vocabulary(folder) or _names_sentence_encoder(folder)


def _has_vocabulary(folder: Path) -> bool:
    """Whether a model has its vocabulary, compressed or not."""
    return any((folder / name).is_file() for name in (VOCABULARY_FILE, f"{VOCABULARY_FILE}.xz"))


def _names_sentence_encoder(folder: Path) -> bool:
    """Whether a model's configuration names a sentence encoder."""
    try:
        return "sentence_encoder" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


def weights_folders(entries: Sequence[str]) -> dict[str, Path]:
    """Name -> folder of the single models in the entries, including members of ensembles.

    A member may be the name of another entry. Misconfigured for a name of two models, and for missing folders.
    """
    names = [model_name(entry) for entry in entries]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise Misconfigured(f"two models are called {duplicate}; give one another name, as NAME=FOLDER")
    folders = {
        name: weights_folder(entry) for name, entry in zip(names, entries, strict=True) if not ensemble_members(entry)
    }
    for member in (member for entry in entries for member in ensemble_members(entry)):
        if member not in folders:
            folders[member] = weights_folder(member)
    return folders


def check_models(entries: Sequence[str]) -> None:
    """Raise Misconfigured where a model of the entries is missing. No weights are read."""
    for folder in weights_folders(entries).values():
        check_checkpoint(folder)


def check_detector(folder: Path | None) -> None:
    """Raise Misconfigured where the folder, if given, holds no detector. No weights are read."""
    if folder is not None and not (folder / "config.json").is_file():
        raise Misconfigured(f"there is no detector in {folder}: config.json is missing")
    if folder is not None and (folder / "model.safetensors").is_file() and (folder / "digest").is_file():
        raise Misconfigured(f"{folder} holds a matching model, and no detector: name it with --model or REGARD_MODELS")


def check_checkpoint(folder: Path) -> None:
    """Raise Misconfigured where a folder lacks files that every checkpoint has; they are not read."""
    missing = [name for name in CHECKPOINT_FILES if not (folder / name).is_file()]
    if not _has_vocabulary(folder) and not _names_sentence_encoder(folder):
        missing.append(VOCABULARY_FILE)
    if missing and (folder / BEST / CHECKPOINT_FILES[0]).is_file():
        raise Misconfigured(f"{folder} is what a training wrote, and its weights are in {folder / BEST}: name that")
    if missing:
        raise Misconfigured(f"{folder} holds no checkpoint: {', '.join(missing)} missing")
