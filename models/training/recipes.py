"""Named training recipes of matchers, which with the data decide the weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

POSITIVE = (
    *("width", "word_dim", "least_count", "clip", "temperature", "score_temperature", "neighbours"),
    *("patience", "validate_images", "save_every", "embed_dim"),
)
NOT_NEGATIVE = (
    "concept_dim",
    "warmup_steps",
    "warmup_captions",
    "epochs",
    "most_steps",
    "learning_rate",
    "weight_decay",
    "margin",
    "pooled_weight",
    "question_weight",
    "grounding_weight",
    "picture_noise",
    "region_noise",
    "concept_start",
    "seed",
)
SHARES = ("feature_dropout", "word_dropout", "region_dropout", "averaging", "momentum")  # 0 or more and less than 1


class Diverged(ValueError):
    """A loss that is not finite; the message names the step and possible reasons."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The hyper-parameters of one training: stage one alone first, then reranker and stage one together."""

    model: str
    name: str | None = None  # of the matcher, beginning with the model's; None: the model's
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model, in addition to those of its name
    text: Literal["gru", "pretrained"] = "gru"  # pretrained: states of the shipped sentence encoder; no word vectors
    recurrent: bool = False  # with pretrained text: a GRU reads the states; else a linear map
    concept_dim: int = 0  # width of the concept vector at the end of a region's feature; needs pretrained text
    aligned: bool = False  # features are in the space of the text encoder, by a sentence map
    word_map: Literal["random", "principal"] = "random"  # initial map if it is narrower than the text encoder's states
    concept_start: float = 1.0  # initial weight of concepts: factor of the words' map as theirs
    starts_from: str | None = None  # the recipe whose weights are the initial ones; None: random ones
    trained: tuple[str, ...] = ()  # the reranker's trained parts; empty: all
    width: int = 1024
    word_dim: int = 300
    unit_vectors: bool | None = None  # of regions and words; None: as in the model's paper
    embed_dim: int | None = None  # of stage one; None: the mean-pooled vectors without a layer
    least_count: int = 4  # a word must occur this often in the training captions
    near: float | None = None  # cosine of word vectors from which an unknown word is read as a known one; None: never
    batch: int = 128
    warmup_steps: int = 300  # InfoNCE on the stage-one embeddings, before any hardest negative
    warmup_captions: int = 0  # above 0: the warm-up uses this many captions with soft targets
    own_share: float = 0.8  # of those targets for a picture's own captions; the rest is for similar ones
    neighbours: float = 0.1  # temperature of cosines of sentence vectors in those targets
    epochs: int = 30
    most_steps: int | None = None  # at which it ends before its epochs do; None: no limit
    optimizer: Literal["adamw", "sgd", "adadelta"] = "adamw"
    momentum: float = 0.9  # of sgd
    learning_rate: float = 2e-4
    decay_after: tuple[int, ...] | None = None  # epochs after which the rate is a tenth; None: one cycle, up and down
    weight_decay: float = 0.0
    clip: float = 2.0
    loss: Literal["hinge", "binary", "info_nce"] = "hinge"  # of the reranker
    negatives: Literal["hardest", "all"] = "hardest"  # of the hinge
    reduction: Literal["mean", "sum"] = "mean"  # of the reranker's loss over a batch
    margin: float = 0.2
    intra_margin: float | None = None  # of SMAN's term for matching pairs
    temperature: float = 0.05
    score_temperature: float = 0.05  # of the reranker's scores under info_nce
    pooled_weight: float = 0.3  # of stage one's InfoNCE loss
    question_weight: float = 0.0  # of short questions about what pictures show; needs concept vectors
    grounding_weight: float = 0.0  # of words' attention to regions of their concept; needs concept vectors
    picture_noise: float = 0.0  # on aligned features, in their standard deviations; equal for all regions
    region_noise: float = 0.0  # likewise, separate for each region
    stage_one: Literal["together", "apart"] = "together"  # apart: stage one's loss does not train the encoders
    feature_dropout: float = 0.0
    word_dropout: float = 0.0
    region_dropout: float = 0.0
    averaging: float = 0.995  # decay of the moving average of the weights, which is the result
    patience: int = 4  # validations without a better rsum before it stops
    validate_images: int = 500
    mixed_precision: bool = True  # bfloat16 on a GPU; a CPU computes in float32
    save_every: int = 100  # steps
    weight_bits: Literal[8, 16, 32] = 16  # of stored matrices; scores are computed in float32
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError, which names one out of range."""
        for names, least, most, words in (
            (POSITIVE, math.ulp(0.0), math.inf, "above 0"),
            (NOT_NEGATIVE, 0, math.inf, "0 or more"),
            (("batch",), 2, math.inf, "2 or more, since a caption is told from those of the batch's other pictures"),
            (SHARES, 0, 1, "0 or more and less than 1"),
            (("seed",), 0, 1 << 63, "less than 2 ** 63"),
        ):
            for name in names:
                if (value := getattr(self, name)) is not None and not least <= value < most:
                    raise ValueError(f"{name} must be {words}, not {value}")
        if self.loss == "info_nce" and (self.intra_margin is not None or self.negatives == "all"):
            raise ValueError("intra_margin and negatives belong to the other losses: info_nce has all pairs of a batch")
        if self.negatives == "all" and (self.loss != "hinge" or self.intra_margin is not None):
            raise ValueError("all negatives are of the hinge alone: set loss=hinge, and no intra_margin")
        if not self.concept_dim and (self.question_weight or self.grounding_weight):
            raise ValueError("question_weight and grounding_weight need concept vectors: set concept_dim")
        if not self.aligned and (self.picture_noise or self.region_noise):
            raise ValueError("noise is for features in the space of the text encoder: set aligned")
        if self.word_map == "principal" and not self.aligned:
            raise ValueError("a principal word map is for features in the space of the text encoder: set aligned")
        if not 0 < self.own_share <= 1:
            raise ValueError(f"own_share must be above 0 and at most 1, not {self.own_share}")
        self._check_loss()
        self._check_schedule()
        self._check_text()

    def _check_loss(self) -> None:
        """Check that the loss fits the model's score."""
        if self.loss == "binary" and self.model.partition("-")[0] != "camp":
            raise ValueError(
                f"the binary loss is for CAMP's models, and the score of {self.model} is no probability: set loss=hinge"
                " or loss=info_nce"
            )
        if self.intra_margin is not None and (self.model, self.options.get("similarity", "sum")) != ("sman", "sum"):
            raise ValueError(
                "intra_margin is for sman where its similarity is the sum of three cosines: set intra_margin=null"
            )

    def _check_schedule(self) -> None:
        """Check that optimizer, learning rate and trained parts fit together."""
        if self.decay_after and min(self.decay_after) < 1:
            raise ValueError(f"decay_after names epochs from 1 on, not {min(self.decay_after)}")
        if self.optimizer == "adadelta" and self.decay_after is None:
            raise ValueError("adadelta has no momentum, which one cycle of the learning rate moves: set decay_after")
        if self.stage_one == "apart" and self.embed_dim is None:
            raise ValueError("stage one learns apart in layers of its own, which there are none of: set embed_dim")
        if self.warmup_steps and not self.pooled_weight:
            raise ValueError(
                "stage one, which a warm-up is of, learns nothing with pooled_weight=0: set warmup_steps=0 too"
            )

    def _check_text(self) -> None:
        """Check the name, and the fields that depend on the kind of text."""
        if not f"{self.name or self.model}-".startswith(f"{self.model}-"):
            raise ValueError(f"the matcher's name must begin with that of its model, {self.model}, not be {self.name}")
        if self.text == "pretrained" and self.near is not None:
            raise ValueError("near is of word vectors, which pretrained text has none of")
        if self.warmup_captions and self.text != "pretrained":
            raise ValueError("warmup_captions needs the vectors of pretrained text")

    @property
    def set_aside(self) -> tuple[str, ...]:
        """The fields that have no effect because of others."""
        unread = {
            ("momentum",): self.optimizer != "sgd",
            ("warmup_captions",): not self.warmup_steps,
            ("own_share", "neighbours"): not (self.warmup_captions and self.warmup_steps),
            ("margin",): self.loss != "hinge",
            ("score_temperature",): self.loss != "info_nce" and not self.question_weight,
            ("temperature",): not self.pooled_weight and not self.question_weight,
            ("word_dim",): self.text == "pretrained",
            ("least_count",): self.text == "pretrained" or self.starts_from is not None,
            ("concept_start",): not self.concept_dim or self.starts_from is not None,
            ("word_map", "near"): self.starts_from is not None,
        }
        return tuple(name for names, unused in unread.items() if unused for name in names)

    def total_steps(self, steps_per_epoch: int) -> int:
        """The steps of the whole training: warm-up and epochs, cut at `most_steps`."""
        steps = self.warmup_steps + self.epochs * steps_per_epoch
        return steps if self.most_steps is None else min(steps, self.most_steps)

    def with_end_of(self, other: "Recipe", step: int, steps_per_epoch: int) -> "Recipe":
        """This recipe of `step` steps, with the other's end if that alone differs; ValueError if steps would too."""
        moved = replace(self, epochs=other.epochs, most_steps=other.most_steps, patience=other.patience)
        before, now = self.total_steps(steps_per_epoch), other.total_steps(steps_per_epoch)
        if moved != other:
            return self
        if now != before and other.decay_after is None:
            raise ValueError(
                f"its learning rate has one cycle over {before} steps, not {now}: train its best weights further, in"
                " another folder, by --from its folder best and --set starts_from= this recipe"
            )
        if now != before and now <= step:
            raise ValueError(f"it has made {step} steps, and would end after {now}: set epochs and most_steps higher")
        return moved


def paper_recipe(model: str, **changes: Any) -> Recipe:
    """A recipe with the papers' settings, changed in some fields.

    No warm-up before the hardest negatives, summed losses, no averaged weights, all epochs with the best one kept,
    float32. Stage one, which papers do not have, has separate layers and affects nothing else.
    """
    settings: dict[str, Any] = {
        "warmup_steps": 0,
        "reduction": "sum",
        "averaging": 0.0,
        "patience": 1000,
        "validate_images": 1000,
        "mixed_precision": False,
        "stage_one": "apart",
        "embed_dim": 256,
    }
    return Recipe(model=model, **settings | changes)


def flickr8k_recipe(model: str, **changes: Any) -> Recipe:
    """A recipe against over-fitting on 6 000 photographs, changed in some fields.

    A third of the width, strong dropout, few epochs after a long warm-up of stage one, and averaged weights.
    """
    settings: dict[str, Any] = {
        "width": 320,
        "word_dim": 100,
        "warmup_steps": 700,
        "epochs": 4,
        "learning_rate": 7e-4,
        "weight_decay": 1e-4,
        "feature_dropout": 0.4,
        "word_dropout": 0.2,
        "region_dropout": 0.1,
    }
    return Recipe(model=model, **settings | changes)


def aligned_recipe(model: str, **changes: Any) -> Recipe:
    """A recipe for features of a detector with a sentence map and concepts, changed in some fields.

    Regions, words and concepts are comparable before the first step, so that little is left to learn. Noise makes the
    training photographs' features as uncertain as others', or they would be memorised (docs/lab/regions.md).
    """
    settings: dict[str, Any] = {
        "text": "pretrained",
        "concept_dim": 384,
        "aligned": True,
        "width": 384,
        "batch": 64,
        "warmup_steps": 0,
        "epochs": 1,
        "most_steps": 120,
        "concept_start": 2.0,
        "learning_rate": 3e-4,
        "weight_decay": 0.01,
        "loss": "info_nce",
        "pooled_weight": 0.5,
        "question_weight": 0.5,
        "grounding_weight": 0.15,
        "picture_noise": 0.75,
        "region_noise": 0.6,
        "feature_dropout": 0.1,
        "word_dropout": 0.1,
        "region_dropout": 0.1,
        "averaging": 0.95,
        "save_every": 50,
    }
    return Recipe(model=model, **settings | changes)


# SCAN's, which CAAN's paper repeats.
F30K: dict[str, Any] = {"learning_rate": 2e-4, "epochs": 30, "decay_after": (15,)}
COCO: dict[str, Any] = {"learning_rate": 5e-4, "epochs": 20, "decay_after": (10,)}

# The paper's; the README's decay after 15 epochs is never reached on Flickr30K. Batches are the published code's.
BFAN: dict[str, Any] = {"decay_after": (10,)}

CAMP: dict[str, Any] = {"loss": "binary", "learning_rate": 2e-4, "epochs": 40, "decay_after": (15,)}
# An epoch of CAMP's code has one caption per picture, a fifth of ours: their 110, 65 and 150 epochs are as follows.
CAMP_SGD: dict[str, Any] = {"loss": "binary", "optimizer": "sgd", "learning_rate": 0.01, "weight_decay": 1e-4}

SMAN: dict[str, Any] = {
    "optimizer": "adadelta",
    "learning_rate": 0.05,
    "epochs": 60,
    "decay_after": (50,),
    "weight_decay": 5e-4,
    "clip": 0.1,
    "reduction": "mean",
    "intra_margin": 0.25,
    "width": 512,
    "word_dim": 512,
    "feature_dropout": 0.3,
    "word_dropout": 0.3,
}

AFTER_BFAN: dict[str, Any] = {
    "starts_from": "bfan-equal-flickr8k",
    "warmup_steps": 0,
    "epochs": 2,
    "learning_rate": 3e-4,
}

RECIPES = {
    "scan-t2i-lse-flickr8k": flickr8k_recipe("scan-t2i-lse"),
    "scan-t2i-avg-flickr8k": flickr8k_recipe("scan-t2i-avg"),
    "scan-i2t-lse-flickr8k": flickr8k_recipe("scan-i2t-lse"),
    "scan-i2t-avg-flickr8k": flickr8k_recipe("scan-i2t-avg"),
    "summax-t2i-flickr8k": flickr8k_recipe("summax-t2i"),
    "summax-i2t-flickr8k": flickr8k_recipe("summax-i2t"),
    "bfan-prob-flickr8k": flickr8k_recipe("bfan-prob", feature_dropout=0.5, word_dropout=0.3, region_dropout=0.3),
    "bfan-equal-flickr8k": flickr8k_recipe("bfan-equal"),
    # Their steps cost three and six times as much, so they start from trained encoders.
    "caan-flickr8k": flickr8k_recipe("caan", **AFTER_BFAN),
    # Unit vectors: bfan-equal, which ignores lengths, left random ones that would dominate.
    "camp-flickr8k": flickr8k_recipe("camp", loss="binary", reduction="sum", unit_vectors=True, **AFTER_BFAN),
    "camp-released-attention-flickr8k": flickr8k_recipe("camp-released-attention", loss="binary", width=256),
    "camp-released-flickr8k": flickr8k_recipe(
        "camp-released", starts_from="camp-released-attention-flickr8k", warmup_steps=0, loss="binary", width=256
    ),
    # For the ensemble with the default model: it learns from captions the words that the other knows from its encoder.
    "bfan-equal-gru-flickr8k": flickr8k_recipe(
        "bfan-equal", name="bfan-equal-gru", width=256, word_dim=104, weight_bits=8
    ),
    # Its layers read raw features, so they are wide on that side.
    "sman-flickr8k": flickr8k_recipe("sman", intra_margin=0.25, width=128),
    "scan-t2i-avg-flickr8k-aligned": aligned_recipe("scan-t2i-avg"),
    "scan-i2t-avg-flickr8k-aligned": aligned_recipe("scan-i2t-avg"),
    "bfan-prob-flickr8k-aligned": aligned_recipe("bfan-prob"),
    "bfan-equal-flickr8k-aligned": aligned_recipe("bfan-equal"),
    # Encoders that distinguish a picture's captions from thousands of others, as the start of any reranker.
    "bfan-equal-flickr8k-stage-one": aligned_recipe(
        "bfan-equal",
        batch=128,
        warmup_steps=150,
        warmup_captions=2048,
        epochs=0,
        most_steps=None,
        learning_rate=1e-3,
        weight_decay=0.05,
        temperature=0.07,
        question_weight=0.15,
    ),
    "bfan-equal-flickr8k-staged": aligned_recipe("bfan-equal", starts_from="bfan-equal-flickr8k-stage-one"),
    # Their parts besides the encoders start at random and need more training.
    "caan-flickr8k-aligned": aligned_recipe("caan", starts_from="bfan-equal-flickr8k-aligned", weight_bits=8),
    "camp-flickr8k-aligned": aligned_recipe(
        "camp", starts_from="bfan-equal-flickr8k-aligned", loss="binary", unit_vectors=True, most_steps=120
    ),
    "sman-flickr8k-aligned": aligned_recipe(
        "sman", width=192, word_map="principal", grounding_weight=0.0, score_temperature=0.15, weight_bits=8
    ),
    "scan-t2i-lse-f30k": paper_recipe("scan-t2i-lse", **F30K),
    "scan-t2i-lse-coco": paper_recipe("scan-t2i-lse", **COCO),
    "scan-t2i-avg-f30k": paper_recipe("scan-t2i-avg", **F30K),
    "scan-t2i-avg-coco": paper_recipe("scan-t2i-avg", **COCO),
    "scan-i2t-lse-f30k": paper_recipe("scan-i2t-lse", **F30K),
    "scan-i2t-lse-coco": paper_recipe("scan-i2t-lse", options={"lambda_lse": 20.0}, **COCO),
    "scan-i2t-avg-f30k": paper_recipe("scan-i2t-avg", **F30K),
    "scan-i2t-avg-coco": paper_recipe("scan-i2t-avg", **COCO),
    "summax-t2i-f30k": paper_recipe("summax-t2i", **F30K),
    "summax-t2i-coco": paper_recipe("summax-t2i", **COCO),
    "summax-i2t-f30k": paper_recipe("summax-i2t", **F30K),
    "summax-i2t-coco": paper_recipe("summax-i2t", **COCO),
    "bfan-prob-f30k": paper_recipe("bfan-prob", **F30K | BFAN | {"epochs": 15}),
    "bfan-prob-coco": paper_recipe("bfan-prob", **COCO | BFAN),
    "bfan-equal-f30k": paper_recipe("bfan-equal", **F30K | BFAN | {"epochs": 15}),
    "bfan-equal-coco": paper_recipe("bfan-equal", **COCO | BFAN),
    "caan-f30k": paper_recipe("caan", **F30K),
    "caan-coco": paper_recipe("caan", **COCO),
    "camp-f30k": paper_recipe("camp", **CAMP),
    "camp-coco": paper_recipe("camp", **CAMP),
    # The authors' network in their three stages; for COCO they published no recipe.
    "camp-released-attention-f30k": paper_recipe(
        "camp-released-attention", loss="binary", batch=256, learning_rate=1e-3, epochs=22, decay_after=(10, 20)
    ),
    "camp-released-fusion-f30k": paper_recipe(
        "camp-released",
        starts_from="camp-released-attention-f30k",
        trained=("region_fusion", "word_fusion", "region_pool", "word_pool", "scorer"),
        epochs=13,
        decay_after=(9,),
        **CAMP_SGD,
    ),
    "camp-released-f30k": paper_recipe(
        "camp-released", starts_from="camp-released-fusion-f30k", epochs=30, decay_after=(10, 20), **CAMP_SGD
    ),
    "sman-f30k": paper_recipe("sman", **SMAN),
    "sman-coco": paper_recipe("sman", **SMAN),
}
