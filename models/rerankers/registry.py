"""The registry of models: names -> classes with their configs."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple, get_type_hints

from models.field_kinds import in_words, is_of_kind
from models.rerankers.base import Reranker
from models.rerankers.bfan import Bfan, BfanConfig
from models.rerankers.caan import Caan, CaanConfig
from models.rerankers.camp import Camp, CampConfig
from models.rerankers.camp_released import CampAttention, CampAttentionConfig, CampReleased, CampReleasedConfig
from models.rerankers.encoders import EncoderConfig
from models.rerankers.scan import Scan, ScanConfig
from models.rerankers.sman import Sman, SmanConfig
from models.rerankers.summax import SumMax, SumMaxConfig


class RegistryEntry(NamedTuple):
    """A model's class, its default config, and whether its encoders normalise by default."""

    reranker: type[Any]
    config: Any
    unit_vectors: bool = True


RERANKERS: Mapping[str, RegistryEntry] = {
    "scan-t2i-lse": RegistryEntry(
        Scan, ScanConfig(direction="t2i", pooling="LogSumExp", lambda_softmax=9.0, lambda_lse=6.0)
    ),
    "scan-t2i-avg": RegistryEntry(Scan, ScanConfig(direction="t2i", pooling="Mean", lambda_softmax=9.0)),
    "scan-i2t-lse": RegistryEntry(
        Scan, ScanConfig(direction="i2t", pooling="LogSumExp", lambda_softmax=4.0, lambda_lse=5.0)
    ),
    "scan-i2t-avg": RegistryEntry(Scan, ScanConfig(direction="i2t", pooling="Mean", lambda_softmax=4.0)),
    "summax-t2i": RegistryEntry(SumMax, SumMaxConfig(direction="t2i")),
    "summax-i2t": RegistryEntry(SumMax, SumMaxConfig(direction="i2t")),
    "bfan-prob": RegistryEntry(Bfan, BfanConfig(focal="prob")),
    "bfan-equal": RegistryEntry(Bfan, BfanConfig(focal="equal")),
    # Neither CAMP's paper nor its authors' code normalises the encoders' vectors, nor does SMAN's paper.
    "camp": RegistryEntry(Camp, CampConfig(), unit_vectors=False),
    "camp-released": RegistryEntry(CampReleased, CampReleasedConfig(), unit_vectors=False),
    "camp-released-attention": RegistryEntry(CampAttention, CampAttentionConfig(), unit_vectors=False),
    "caan": RegistryEntry(Caan, CaanConfig()),
    "sman": RegistryEntry(Sman, SmanConfig(), unit_vectors=False),
}

POSITIVE_OPTIONS = ("lambda_softmax", "lambda_lse", "key_width", "attention_width", "num_branches")


class UnknownModel(ValueError):
    """A name that is not in the registry."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no model is called {name!r}; known: {', '.join(sorted(RERANKERS))}")


class UnknownOption(ValueError):
    """An option, or an option's value, that a model does not have."""


def entry_of(name: str, options: Mapping[str, Any] | None = None) -> RegistryEntry:
    """The entry of a name, with the fields of its config that `options` change.

    Raises UnknownModel and UnknownOption, which name the known ones.
    """
    if name not in RERANKERS:
        raise UnknownModel(name)
    entry = RERANKERS[name]
    known = [field.name for field in fields(entry.config)]
    if unknown := sorted(set(options or {}) - set(known)):
        raise UnknownOption(f"{name} has no option {', '.join(unknown)}; it has: {', '.join(known)}")
    kinds = get_type_hints(type(entry.config))
    changes = {}
    for option, value in (options or {}).items():
        if not is_of_kind(value, kinds[option]):
            raise UnknownOption(f"the option {option} of {name} is {in_words(kinds[option])}, not {value!r}")
        if option in POSITIVE_OPTIONS and value is not None and value <= 0:
            raise UnknownOption(f"the option {option} of {name} must be above 0, not {value}")
        changes[option] = float(value) if kinds[option] is float else value
    return entry._replace(config=replace(entry.config, **changes))


def build(name: str, encoders: EncoderConfig, options: Mapping[str, Any] | None = None) -> Reranker[Any]:
    """A new model by its name, with initial weights; options and errors are those of `entry_of`."""
    kind, config, unit_vectors = entry_of(name, options)
    reranker = kind(config, encoders if unit_vectors else encoders.without_default_norms())
    assert isinstance(reranker, Reranker)
    return reranker
