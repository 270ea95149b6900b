"""Loads the extractor and the models that settings name; model_names.py says how they name them."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from models.extractors.base import Extractor
from models.extractors.registry import load_extractor
from models.kernels.device_library import DeviceKernels
from models.kernels.library import KernelLibrary, NoKernels, load_library
from models.matching.checkpoint import WEIGHTS, load_matcher
from models.matching.ensemble import build_ensemble
from models.matching.matcher import Matcher, SingleMatcher
from service.errors import Misconfigured
from service.model_names import DETECTOR, ensemble_members, model_name, weights_folders
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.region_stores import features_extractor, other_extractors

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, kw_only=True)
class LoadedModels:
    """The models that settings name, on their device."""

    extractor: Extractor
    matchers: dict[str, Matcher]
    """The default first. Some may be of a former extractor, whose regions and views the data directory still holds."""
    views: Sequence[str]  # names of those that pictures are encoded for

    @classmethod
    def from_settings(cls, settings: Settings, stored: bool = True) -> "LoadedModels":
        """Read weights from disk; Misconfigured where a model was made for another detector.

        Models of a detector whose regions the data directory still holds are loaded too, as long as there is one of the
        detector in service. Those of a detector that it gave up are left out with a warning. Without `stored` it does
        not matter what the data directory holds.
        """
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        device = device_of(settings.device)
        extractor = extractor_of(settings.detector, settings.data_dir if stored else None, device)
        matchers = load_models(settings.models, device)
        former: set[str] = set()
        if stored and any(matcher.extractor_digest == extractor.digest for matcher in matchers.values()):
            former, given_up = other_extractors(DataDir(settings.data_dir), extractor.digest)
            for name in [name for name, matcher in matchers.items() if matcher.extractor_digest in given_up]:
                digest = matchers.pop(name).extractor_digest
                log.warning(
                    "the model %s is left out: the regions of its detector %s were replaced by those of %s;"
                    " remove it from REGARD_MODELS",
                    name,
                    digest,
                    extractor.digest,
                )
        loaded = cls(extractor=extractor, matchers=matchers, views=settings.built_views)
        loaded.check(former)
        if torch.device(device).type == "cuda":
            use_device_kernels(list(matchers.values()), torch.device(device), settings)
        else:
            kernels = load_kernels(settings.kernels)
            for matcher in matchers.values():
                matcher.use_kernels(kernels)
        return loaded

    def of_extractor(self, in_views: bool) -> list[Matcher]:
        """The models of the detector in service, those that pictures are encoded for, or the others."""
        return [
            matcher
            for name, matcher in self.matchers.items()
            if matcher.extractor_digest == self.extractor.digest and (name in self.views) == in_views
        ]

    def check(self, former: Collection[str] = ()) -> None:
        """Misconfigured where a model was trained on features of neither this detector nor a former one."""
        made = self.extractor
        for name, matcher in self.matchers.items():
            if matcher.extractor_digest in former:
                continue
            if matcher.extractor_digest != made.digest:
                what = "the detector here is" if made.accepts_pictures else "the data directory holds features of"
                where = (
                    "REGARD_DETECTOR or REGARD_MODELS" if made.accepts_pictures else "REGARD_MODELS or REGARD_DATA_DIR"
                )
                raise Misconfigured(
                    f"{name} was trained on features of detector {matcher.extractor_digest}, and {what} {made.digest}:"
                    f" set {where} so that they belong together"
                )
            if matcher.feature_dim != made.feature_dim:
                raise Misconfigured(
                    f"{name} reads features of {matcher.feature_dim} numbers, and those of {made.digest} have"
                    f" {made.feature_dim}: the name of the features is wrong in one of them"
                )


def load_kernels(wanted: bool) -> KernelLibrary | None:
    """The kernels that score stored pictures; None where none are wanted or there (`regard doctor` says why)."""
    if not wanted:
        return None
    try:
        return load_library()
    except NoKernels as fault:
        log.debug("scores are computed by PyTorch, without kernels: %s", fault)
        return None


def use_device_kernels(matchers: Sequence[Matcher], device: torch.device, settings: Settings) -> None:
    """Have the models score stored pictures on a GPU by the Triton kernel; their records share the budget equally.

    Without Triton, or where none are wanted, PyTorch scores copies of the records.
    """
    served = [one for one in matchers if isinstance(one, SingleMatcher) and one.reranker.kernel_form is not None]
    if not settings.kernels:
        return
    for matcher in served:
        try:
            matcher.use_kernels(DeviceKernels(device, settings.gpu_memory // len(served)))
        except NoKernels as fault:
            log.warning("scores on the GPU are computed by PyTorch, without a kernel: %s", fault)
            return


def extractor_of(folder: Path | None, data_dir: Path | None, device: str) -> Extractor:
    """The detector in a folder; for None, what made the features in the data directory, or else the shipped one."""
    extractor = detector_of(folder, device)
    if folder is None and data_dir is not None:
        return features_extractor(DataDir(data_dir), extractor.digest) or extractor
    return extractor


def detector_of(folder: Path | None, device: str) -> Extractor:
    """The detector in a folder, the shipped one for None."""
    folder = folder or WEIGHTS / DETECTOR
    if not folder.is_dir():
        raise Misconfigured(f"there is no detector in {folder}")
    return load_extractor(folder, device)


def device_of(name: str) -> str:
    """The device that `auto` means here, or the one named."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
