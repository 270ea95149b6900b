"""The models that the authors' options become, and the options that are refused."""

from typing import Any

import pytest

from models.conversion.authors_options import TRANSLATIONS, AuthorsOptions, CheckpointKind, ConversionError
from tests.support.authors_checkpoints import BFAN, CAMP, SCAN


def test_options_of_scan_become_the_models_options() -> None:
    opt = AuthorsOptions(
        SCAN | {"cross_attn": "i2t", "agg_func": "Mean", "raw_feature_norm": "softmax", "lambda_softmax": 4}
    )
    model = TRANSLATIONS["scan"](opt)
    assert (model.name, model.bidirectional) == ("scan-i2t-avg", True)
    assert model.options == {
        "normalisation": "softmax",
        "pooling": "Mean",
        "lambda_softmax": 4.0,
        "lambda_lse": 6.0,
    }


@pytest.mark.parametrize(("pooling", "name"), [("LogSumExp", "lse"), ("Mean", "avg"), ("Max", "avg"), ("Sum", "avg")])
def test_every_pooling_of_scan_has_a_name_and_stays_what_it_is(pooling: str, name: str) -> None:
    model = TRANSLATIONS["scan"](AuthorsOptions(SCAN | {"agg_func": pooling}))
    assert (model.name, model.options["pooling"]) == (f"scan-t2i-{name}", pooling)


def test_bfan_has_its_focal_mask_in_its_name() -> None:
    assert TRANSLATIONS["bfan"](AuthorsOptions(BFAN | {"focal_type": "equal"})).name == "bfan-equal"


def test_both_of_camps_networks_have_names() -> None:
    assert TRANSLATIONS["camp"](AuthorsOptions(CAMP)).name == "camp-released"
    assert (
        TRANSLATIONS["camp"](AuthorsOptions(CAMP | {"measure": "cross_attention_new"})).name
        == "camp-released-attention"
    )


@pytest.mark.parametrize(
    ("kind", "options", "change"),
    [
        ("scan", SCAN, {"raw_feature_norm": "l1norm"}),  # raises NameError in the authors' own code
        ("scan", SCAN, {"agg_func": "Median"}),
        ("scan", SCAN, {"cross_attn": "both"}),
        ("scan", SCAN, {"precomp_enc_type": "mlp"}),
        ("scan", SCAN, {"lambda_softmax": "9"}),
        ("scan", SCAN, {"lambda_lse": True}),
        ("scan", SCAN, {"bi_gru": 1}),
        ("scan", SCAN, {"cross_attn": None}),
        ("bfan", BFAN, {"focal_type": ["prob"]}),
        ("camp", CAMP, {"measure": "gate_fusion"}),
        ("camp", CAMP, {"self_attention": True}),
        ("camp", CAMP, {"bi_gru": False}),
    ],
)
def test_what_is_not_known_is_named(kind: CheckpointKind, options: dict[str, Any], change: dict[str, Any]) -> None:
    name, value = next(iter(change.items()))
    with pytest.raises(ConversionError) as refusal:
        TRANSLATIONS[kind](AuthorsOptions(options | change))
    assert f"option {name} is {value!r}" in str(refusal.value)


def test_options_that_nobody_asked_for_are_left_over_unless_they_steer_training() -> None:
    opt = AuthorsOptions(SCAN | {"learning_rate": 2e-4, "lambda_new": 1.0})
    TRANSLATIONS["scan"](opt)
    for name in ("vocab_size", "word_dim", "embed_size", "img_dim", "num_layers"):
        opt.value(name, int)
    opt.one_of("no_imgnorm", (True, False))
    opt.one_of("no_txtnorm", (True, False))
    assert opt.unread == {"lambda_new"}
