"""The head that is fitted before a backbone is tuned: it finds, and it reads features as they are."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.datasets.captions import CaptionLine
from models.text.bert_encoder import BertConfig, BertEncoder
from models.training.backbone.linear_probing import fit_maps
from models.training.backbone.sentence_head import SentenceHead, whole_picture_recalls
from models.training.backbone.sentence_tuning import SentenceTuningRecipe
from models.training.caption_targets import CaptionTargets

WIDTH, FEATURES, PHOTOGRAPHS = 12, 20, 60
RECIPE = SentenceTuningRecipe(lead_passes=80, lead_rate=3e-2, dropout=0.0, own_share=1.0)
LINES = [CaptionLine(f"{n}.png", (f"{n} one", f"{n} two")) for n in range(PHOTOGRAPHS)]


class DrawnSentences(BertEncoder):
    """Two captions of a photograph are alike in half of their numbers, which alone can be seen."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.config = BertConfig(num_pieces=0, num_positions=0, num_layers=0, width=WIDTH, hidden_width=0)
        generator = torch.Generator().manual_seed(5)
        seen = torch.randn(PHOTOGRAPHS, WIDTH // 2, generator=generator).repeat_interleave(2, 0)
        unseen = torch.randn(2 * PHOTOGRAPHS, WIDTH // 2, generator=generator)
        self.drawn = normalize(torch.cat([seen, unseen], 1), dim=1)

    def embed(self, sentences: Sequence[str], batch: int = 256) -> Tensor:
        return self.drawn[: len(sentences)]


ENCODER = DrawnSentences()
SEEN = ENCODER.drawn[::2, : WIDTH // 2]


def features_of(scales: Tensor) -> Tensor:
    """Features that follow from what can be seen, each at a scale of its own, far from zero."""
    mixing = torch.randn(WIDTH // 2, FEATURES, generator=torch.Generator().manual_seed(6))
    return (normalize(SEEN, dim=1) @ mixing) * scales + 3


def fitted(features: Tensor, log: Any = lambda entry: None) -> SentenceHead:
    torch.manual_seed(0)
    head = SentenceHead(FEATURES, WIDTH, RECIPE, nn.Linear(FEATURES, 5))
    fit_maps(
        head,
        CaptionTargets(ENCODER, [line.captions for line in LINES], RECIPE),
        torch.arange(PHOTOGRAPHS),
        features,
        RECIPE,
        log,
    )
    return head.eval()


def test_photographs_find_their_captions_once_it_has_learnt_what_can_be_seen() -> None:
    features = features_of(torch.ones(FEATURES))
    losses: list[float] = []
    head = fitted(features, lambda entry: losses.append(entry["matching"]))
    with torch.no_grad():
        vectors = head.embed_means(features)
        read = whole_picture_recalls(vectors, head.read(ENCODER.drawn), LINES)["rsum"]
        untold = whole_picture_recalls(vectors, ENCODER.drawn, LINES)["rsum"]
    assert len(losses) == RECIPE.lead_passes
    assert losses[-1] < losses[0] / 2
    assert read > 500
    assert read > untold + 20


def test_features_of_all_scales_are_learnt_at_the_same_pace() -> None:
    scales = torch.logspace(-1, 2, FEATURES)
    alike, unlike = fitted(features_of(torch.ones(FEATURES))), fitted(features_of(scales))
    with torch.no_grad():
        expected = alike.embed_means(features_of(torch.ones(FEATURES)))
        found = unlike.embed_means(features_of(scales))
    assert (expected * found).sum(1).min() > 0.99


def test_a_head_that_has_learnt_nothing_reads_sentences_as_they_are() -> None:
    head = SentenceHead(FEATURES, WIDTH, RECIPE, nn.Linear(FEATURES, 5))
    sentences = torch.randn(7, WIDTH)
    torch.testing.assert_close(head.read(sentences), normalize(sentences, dim=1))
    with torch.no_grad():
        nn.init.normal_(head.of_sentence.weight)
    by_hand = [one + head.of_sentence.weight.double() @ one for one in sentences.double()]
    expected = torch.stack([one / one.norm() for one in by_hand])
    torch.testing.assert_close(head.read(sentences).double(), expected, atol=1e-6, rtol=0)
    features = torch.randn(4, FEATURES)
    with torch.no_grad():
        folded = head.map_to_sentences()(features) @ sentences.T
        seen = head.project(features) @ (sentences + head.of_sentence(sentences)).T
    torch.testing.assert_close(folded, seen)
