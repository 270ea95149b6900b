"""The options that the SCAN, BFAN and CAMP authors' checkpoints carry (`opt`) -> our names, options and encoders."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.safe_load.restricted_pickle import RefusedFile

Kind = Literal["scan", "bfan", "camp"]

# Options of training and files: no score depends on them. The last two lines are CAMP's, some read by nothing.
TRAINING_OPTIONS = frozenset(
    """
    data_path data_name vocab_path margin num_epochs batch_size grad_clip learning_rate lr_update workers log_step
    val_step logger_name model_name resume max_violation
    use_restval crop_size val_epoc finetune finetune_gate word_embed embed_mask lr_scheduler optimizer distributed
    cnn_type loss_func fusion_func use_abs
    """.split()  # noqa: SIM905 - forty lines as a list
)
POOLINGS = {"LogSumExp": "lse", "Mean": "avg", "Max": "avg", "Sum": "avg"}
NORMALISATIONS = ("softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm")
CAMP_NETWORKS = {"gate_fusion_new": "camp-released", "cross_attention_new": "camp-released-attention"}


class Unconvertible(RefusedFile):
    """A file with something in it that the conversion does not know; the message names it."""


class Options:
    """`opt`, asked for option by option; `leftover` are those that nobody asked for."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.stored = stored
        self.leftover = set(stored) - TRAINING_OPTIONS

    def of(self, name: str, kind: type) -> Any:
        """The value of an option; Unconvertible where it is missing or of another type than `kind`."""
        self.leftover.discard(name)
        value = self.stored.get(name)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise Unconvertible(f"option {name} is {value!r}, not of type {kind.__name__}")
        return value

    def one_of(self, name: str, known: Collection[Any]) -> Any:
        """A value that must be among `known`."""
        self.leftover.discard(name)
        value = self.stored.get(name)
        if value not in list(known):
            raise Unconvertible(f"option {name} is {value!r}; known: {', '.join(map(repr, known))}")
        return value


@dataclass(frozen=True)
class Plan:
    """What a checkpoint becomes: a named model with options, and the encoders' directions."""

    model: str
    options: Mapping[str, Any]
    bidirectional: bool


def scan_plan(opt: Options) -> Plan:
    """SCAN: direction, pooling, normalisation and both temperatures."""
    direction = opt.one_of("cross_attn", ("t2i", "i2t"))
    pooling = opt.one_of("agg_func", POOLINGS)
    options = {
        "normalisation": opt.one_of("raw_feature_norm", NORMALISATIONS),
        "pooling": pooling,
        "lambda_softmax": opt.of("lambda_softmax", float),
        "lambda_lse": opt.of("lambda_lse", float),
    }
    opt.one_of("precomp_enc_type", ("basic", "weight_norm"))
    return Plan(f"scan-{direction}-{POOLINGS[pooling]}", options, opt.of("bi_gru", bool))


def bfan_plan(opt: Options) -> Plan:
    """BFAN, whose GRU has always two directions."""
    focal = opt.one_of("focal_type", ("prob", "equal"))
    opt.one_of("precomp_enc_type", ("basic", "weight_norm"))
    return Plan(f"bfan-{focal}", {"lambda_softmax": opt.of("lambda_softmax", float)}, bidirectional=True)


def camp_plan(opt: Options) -> Plan:
    """CAMP's two later networks; the encoders must give a vector a region and a word."""
    network = opt.one_of("measure", CAMP_NETWORKS)
    for name, needed in (("cross_model", True), ("self_attention", False), ("bi_gru", True)):
        opt.one_of(name, (needed,))
    return Plan(CAMP_NETWORKS[network], {}, bidirectional=True)


PLANS: Mapping[Kind, Callable[[Options], Plan]] = {"scan": scan_plan, "bfan": bfan_plan, "camp": camp_plan}
