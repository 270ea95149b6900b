"""The options in checkpoints of the SCAN, BFAN and CAMP authors (`opt`), translated to our models and options."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.safe_load.restricted_pickle import RefusedFile

CheckpointKind = Literal["scan", "bfan", "camp"]

# Options of training and files, on which no score depends. The last two lines are CAMP's, some of which it never reads.
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
SIGNS: Mapping[CheckpointKind, str] = {"scan": "agg_func", "bfan": "focal_type", "camp": "cross_model"}
"""An option that only checkpoints of this kind have."""
CAMP_NETWORKS = {"gate_fusion_new": "camp-released", "cross_attention_new": "camp-released-attention"}


class ConversionError(RefusedFile):
    """A file with something that the conversion does not know; the message names it."""


class AuthorsOptions:
    """The options of a checkpoint, read one by one; `unread` are the remaining ones that affect scores."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.stored = stored
        self.unread = set(stored) - TRAINING_OPTIONS

    def value(self, name: str, type_: type) -> Any:
        """An option's value; an int is read as a float. Raises ConversionError if it is missing or not of `type_`."""
        self.unread.discard(name)
        value = self.stored.get(name)
        if type_ is float and type(value) is int:
            value = float(value)
        if type(value) is not type_:
            raise ConversionError(f"option {name} is {value!r}, not of type {type_.__name__}")
        return value

    def one_of(self, name: str, known: Collection[Any]) -> Any:
        """The value of an option. Raises ConversionError if it is not among `known`."""
        self.unread.discard(name)
        value = self.stored.get(name)
        if value not in list(known):
            raise ConversionError(f"option {name} is {value!r}; known: {', '.join(map(repr, known))}")
        return value

    def check_kind(self, kind: CheckpointKind) -> None:
        """Check the kind of checkpoint. Raises ConversionError if the options are those of another kind."""
        others = [other for other, sign in SIGNS.items() if sign in self.stored]
        if others and kind not in others:
            raise ConversionError(
                f"it is a checkpoint of {others[0].upper()}, as its option {SIGNS[others[0]]} tells, and not of"
                f" {kind.upper()}: convert it as {others[0]}"
            )


@dataclass(frozen=True)
class ConvertedModel:
    """The model that a checkpoint becomes: its name, its options and whether the GRU has two directions."""

    name: str
    options: Mapping[str, Any]
    bidirectional: bool


def scan_model(opt: AuthorsOptions) -> ConvertedModel:
    """SCAN, whose options are direction, pooling, normalisation and both temperatures."""
    direction = opt.one_of("cross_attn", ("t2i", "i2t"))
    pooling = opt.one_of("agg_func", POOLINGS)
    options = {
        "normalisation": opt.one_of("raw_feature_norm", NORMALISATIONS),
        "pooling": pooling,
        "lambda_softmax": opt.value("lambda_softmax", float),
        "lambda_lse": opt.value("lambda_lse", float),
    }
    opt.one_of("precomp_enc_type", ("basic", "weight_norm"))
    return ConvertedModel(f"scan-{direction}-{POOLINGS[pooling]}", options, opt.value("bi_gru", bool))


def bfan_model(opt: AuthorsOptions) -> ConvertedModel:
    """BFAN, whose GRU always has two directions."""
    focal = opt.one_of("focal_type", ("prob", "equal"))
    opt.one_of("precomp_enc_type", ("basic", "weight_norm"))
    return ConvertedModel(f"bfan-{focal}", {"lambda_softmax": opt.value("lambda_softmax", float)}, bidirectional=True)


def camp_model(opt: AuthorsOptions) -> ConvertedModel:
    """CAMP's two later networks, whose encoders give a vector for each region and word."""
    network = opt.one_of("measure", CAMP_NETWORKS)
    for name, needed in (("cross_model", True), ("self_attention", False), ("bi_gru", True)):
        opt.one_of(name, (needed,))
    return ConvertedModel(CAMP_NETWORKS[network], {}, bidirectional=True)


TRANSLATIONS: Mapping[CheckpointKind, Callable[[AuthorsOptions], ConvertedModel]] = {
    "scan": scan_model,
    "bfan": bfan_model,
    "camp": camp_model,
}
