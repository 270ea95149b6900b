"""Loads the extractor and the models named in the settings; model_names.py defines these names."""

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from models.extractors.base import Extractor
from models.extractors.registry import load_extractor
from models.kernels.device_library import DeviceKernels
from models.kernels.forms import KernelForm
from models.kernels.library import KernelLibrary, NoKernels, load_library
from models.matching.checkpoint import WEIGHTS, load_matcher, read_header
from models.matching.ensemble import build_ensemble, ensemble_header
from models.matching.ensemble_calibrations import read_ensemble_calibration
from models.matching.lazy_matcher import LazyMatcher
from models.matching.matcher import Matcher
from models.matching.single_matcher import SingleMatcher
from service.errors import Misconfigured
from service.garbage_collection import without_collections
from service.model_names import DETECTOR, ensemble_members, model_name, shown_name, weights_folders
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.storage.regions.folders import features_extractor, other_extractors

DEVICE = re.compile(r"cpu|cuda(?::(\d+))?")

log = logging.getLogger(__name__)


def load_models(entries: Sequence[str], device: str) -> dict[str, Matcher]:
    """The models of the entries, by name and in order. Misconfigured as `lazy_models`."""
    return {name: loaded_matcher(name, model) for name, model in lazy_models(entries, device).items()}


def load_model(entry: str, device: str) -> Matcher:
    """The model of one entry. Raises Misconfigured where there is no such model."""
    return next(iter(load_models([entry], device).values()))


def load_model_as_served(entry: str, settings: Settings) -> Matcher:
    """`load_model`, with the kernels that a service uses for scoring on a CPU."""
    device = device_of(settings.device)
    matcher = load_model(entry, device)
    matcher.use_kernels(load_kernels(settings.kernels and device == "cpu"))
    return matcher


def lazy_models(
    entries: Sequence[str], device: str, prepare: Callable[[Matcher], object] = lambda matcher: None
) -> dict[str, LazyMatcher]:
    """The models of the entries, by name and in order, each read when first needed and then passed to `prepare`. A
    model that is served both alone and in an ensemble is read once.

    Misconfigured for a model that does not exist or has a bad header, for a name of two models, and for incompatible
    members of an ensemble.
    """
    folders = weights_folders(entries)
    single: dict[Path, LazyMatcher] = {}

    def read(load: Callable[[], Matcher]) -> Matcher:
        matcher = load()
        prepare(matcher)
        return matcher

    def begin(name: str) -> LazyMatcher:
        folder = folders[name]
        if folder not in single:
            single[folder] = LazyMatcher(read_header(folder), partial(read, partial(load_matcher, folder, device)))
        return single[folder]

    def begin_entry(entry: str) -> LazyMatcher:
        if not ensemble_members(entry):
            return begin(model_name(entry))
        names = ensemble_members(entry)
        members = [begin(name) for name in names]
        headers = [member.header for member in members]
        fitted = read_ensemble_calibration(folders[names[-1]], [header.digest for header in headers])

        def load() -> Matcher:
            return build_ensemble([single_matcher(member) for member in members], fitted)

        return LazyMatcher(ensemble_header(headers, fitted), partial(read, load))

    lazy: dict[str, LazyMatcher] = {}
    for entry in entries:
        with naming(shown_name(entry)):
            lazy[model_name(entry)] = begin_entry(entry)
    return lazy


def single_matcher(model: LazyMatcher) -> SingleMatcher:
    """A member of an ensemble, which is read if it was not."""
    matcher = model.matcher
    assert isinstance(matcher, SingleMatcher)
    return matcher


def loaded_matcher(name: str, model: LazyMatcher) -> Matcher:
    """The matcher served under the name. Misconfigured where it cannot be loaded."""
    with naming(name):
        return model.matcher


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn a ValueError of the block into Misconfigured, naming the model."""
    try:
        yield
    except ValueError as fault:
        raise Misconfigured(f"{name}: {fault}") from fault


@dataclass(frozen=True, kw_only=True)
class LoadedModels:
    """The models named in the settings, on their device."""

    extractor: Extractor
    models: Mapping[str, LazyMatcher]
    """By name, the default first. Some may use a former extractor, whose regions and views are still stored."""
    views: Sequence[str]  # names of the models that pictures are encoded for

    @classmethod
    def of(cls, extractor: Extractor, matchers: Mapping[str, Matcher], views: Sequence[str]) -> "LoadedModels":
        """Models that are already in memory."""
        return cls(
            extractor=extractor,
            models={name: LazyMatcher.of(matcher) for name, matcher in matchers.items()},
            views=views,
        )

    @classmethod
    @without_collections()
    def from_settings(cls, settings: Settings, stored: bool = True, at_first_use: bool = False) -> "LoadedModels":
        """Read weights from disk; Misconfigured where a model was made for another detector.

        Models of a former detector whose regions are still stored are loaded, too, if there is one of the current
        detector; models of a detector that was given up are skipped with a warning. Without `stored` the data directory
        is ignored. With `at_first_use`, only the header of all but the default model is read now, unless the settings
        say otherwise; on a GPU, whose memory is divided among them, all are loaded.
        """
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        device = device_of(settings.device)
        on_gpu = torch.device(device).type == "cuda"
        extractor = extractor_of(settings.detector, settings.data_dir if stored else None, device)
        kernels = None if on_gpu else load_kernels(settings.kernels)
        models = lazy_models(settings.models, device, lambda matcher: matcher.use_kernels(kernels))
        former: set[str] = set()
        if stored and any(model.header.extractor_digest == extractor.digest for model in models.values()):
            former, given_up = other_extractors(DataDir(settings.data_dir), extractor.digest)
            drop_given_up(models, given_up, extractor.digest)
        check_detectors(models, extractor, former)
        loaded_now = (
            default_names(models, extractor) if at_first_use and not (settings.preload or on_gpu) else set(models)
        )
        matchers = [loaded_matcher(name, model) for name, model in models.items() if name in loaded_now]
        if on_gpu:
            use_device_kernels(matchers, torch.device(device), settings)
        return cls(extractor=extractor, models=models, views=settings.built_views)

    @property
    def default(self) -> str:
        """The name of the model that is used when none is named."""
        return next(iter(self.models))

    @property
    def matchers(self) -> dict[str, Matcher]:
        """All models by name, read if necessary. Misconfigured where one cannot be read."""
        return {name: self.matcher(name) for name in self.models}

    def matcher(self, name: str) -> Matcher:
        """The model of that name, read if necessary. Misconfigured where it cannot be read."""
        return loaded_matcher(name, self.models[name])

    def in_views(self) -> list[Matcher]:
        """The models of the current detector that pictures are encoded for, loaded. Raises Misconfigured where one
        cannot be."""
        return [self.matcher(name) for name in self._of_extractor() if name in self.views]

    def on_request(self) -> list[LazyMatcher]:
        """The other models of the current detector."""
        return [model for name, model in self._of_extractor().items() if name not in self.views]

    def _of_extractor(self) -> dict[str, LazyMatcher]:
        digest = self.extractor.digest
        return {name: model for name, model in self.models.items() if model.header.extractor_digest == digest}


def drop_given_up(models: dict[str, LazyMatcher], given_up: Collection[str], extractor: str) -> None:
    """Remove the models of detectors whose regions were replaced by those of `extractor`, with a warning."""
    for name in [name for name, model in models.items() if model.header.extractor_digest in given_up]:
        log.warning(
            "the model %s is left out: the regions of its detector %s were replaced by those of %s;"
            " remove it from REGARD_MODELS",
            name,
            models.pop(name).header.extractor_digest,
            extractor,
        )


def check_detectors(models: Mapping[str, LazyMatcher], extractor: Extractor, former: Collection[str] = ()) -> None:
    """Raise Misconfigured where a model was trained on features of neither this extractor nor a former one."""
    for name, model in models.items():
        header = model.header
        if header.extractor_digest in former:
            continue
        if header.extractor_digest != extractor.digest:
            subject = "the detector here is" if extractor.accepts_pictures else "the data directory holds features of"
            if header.extractor_digest.startswith(f"{extractor.digest}-first-"):
                raise Misconfigured(
                    f"{name} was trained on the first regions of each picture alone (--regions), which no service"
                    " gives it: train it on all"
                )
            settings = (
                "REGARD_DETECTOR or REGARD_MODELS" if extractor.accepts_pictures else "REGARD_MODELS or REGARD_DATA_DIR"
            )
            raise Misconfigured(
                f"{name} was trained on features of detector {header.extractor_digest}, and {subject}"
                f" {extractor.digest}: set {settings} so that they belong together"
            )
        if header.feature_dim != extractor.feature_dim:
            raise Misconfigured(
                f"{name} reads features of {header.feature_dim} numbers, and those of {extractor.digest} have"
                f" {extractor.feature_dim}: the name of the features is wrong in one of them"
            )


def default_names(models: Mapping[str, LazyMatcher], extractor: Extractor) -> set[str]:
    """The models that may be the default: the first, and during a migration the first of the current detector."""
    of_extractor = [name for name, model in models.items() if model.header.extractor_digest == extractor.digest]
    return {next(iter(models)), *of_extractor[:1]}


def load_kernels(is_enabled: bool) -> KernelLibrary | None:
    """The kernels for scoring stored pictures; None if disabled or not available (`regard doctor` says why)."""
    if not is_enabled:
        return None
    try:
        return load_library()
    except NoKernels as fault:
        log.debug("scores are computed by PyTorch, without kernels: %s", fault)
        return None


def use_device_kernels(matchers: Sequence[Matcher], device: torch.device, settings: Settings) -> None:
    """Have the models score stored pictures on a GPU by the Triton kernel; they share the memory budget equally.

    Without Triton, or if kernels are disabled, PyTorch scores copies of the records.
    """
    single_matchers = [matcher for matcher in matchers if isinstance(matcher, SingleMatcher)]
    served = [matcher for matcher in single_matchers if isinstance(matcher.reranker.kernel_form, KernelForm)]
    if not settings.kernels:
        return
    for matcher in served:
        try:
            matcher.use_kernels(DeviceKernels(device, settings.gpu_memory // len(served)))
        except NoKernels as fault:
            log.warning("scores on the GPU are computed by PyTorch, without a kernel: %s", fault)
            return


def extractor_of(folder: Path | None, data_dir: Path | None, device: str) -> Extractor:
    """The detector in a folder; for None, the extractor of the features in the data directory, or else the shipped
    detector."""
    extractor = detector_of(folder, device)
    if folder is None and data_dir is not None:
        return features_extractor(DataDir(data_dir), extractor.digest) or extractor
    return extractor


def detector_of(folder: Path | None, device: str) -> Extractor:
    """The detector in a folder; the shipped one for None."""
    folder = folder or WEIGHTS / DETECTOR
    if not folder.is_dir():
        raise Misconfigured(f"there is no detector in {folder}")
    return load_extractor(folder, device)


def device_of(name: str) -> str:
    """The device for `auto`, or the named one. Misconfigured for a device that is not available."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    match = DEVICE.fullmatch(name)
    if match is None or (name != "cpu" and int(match[1] or 0) >= torch.cuda.device_count()):
        raise Misconfigured(
            f"there is no device {name} that PyTorch can use here: choose another one, cpu or auto (--device, or the"
            " setting REGARD_DEVICE)"
        )
    return name
