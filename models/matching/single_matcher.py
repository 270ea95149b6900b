"""Matchers of one reranker, whose scores may also include stage one's cosine and a hubness correction."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import ReadSentences, Regions, Words
from models.kernels.interface import field_reader, table_kernels
from models.matching.calibration import Calibration
from models.matching.encoded import HUBNESS, STAGE_ONE, EncodedImages, EncodedTexts, of_width, to_half
from models.matching.hubness import HubnessConfig, HubnessCorrection
from models.matching.hubness_banks import HubnessBanks
from models.matching.matcher import Matcher
from models.matching.stage_one import StageOneHead
from models.rerankers.base import Explanation, Reranker
from models.rerankers.blocks import score_in_blocks
from models.rerankers.encoders import EncoderConfig
from models.text.pretrained_reader import PretrainedReader
from models.text.reader import SentenceReader


class SingleMatcher(Matcher):
    """One reranker with its stage-one head, reader and hubness correction: the content of a checkpoint."""

    def __init__(
        self,
        model: str,
        encoders: EncoderConfig,
        reranker: Reranker[Any],
        head: StageOneHead,
        reader: SentenceReader,
        extractor_digest: str,
        digest: str = "",
        calibration: Calibration | None = None,
        hubness: HubnessCorrection | None = None,
    ) -> None:
        """`model` is the registered name of the reranker, and at first the matcher's name. `hubness` corrects the
        scores that `calibration` calibrates. Raises ValueError for a reader that does not fit."""
        super().__init__(model, reader, extractor_digest, digest, calibration)
        self.model = model
        if isinstance(reader, PretrainedReader) is not (encoders.text == "pretrained"):
            raise ValueError(
                f"{model} is for {encoders.text} text: its reader, or what it starts from, is of another kind"
            )
        if isinstance(reader, PretrainedReader) and reader.state_dim != encoders.state_dim:
            raise ValueError(f"{model} reads states of {encoders.state_dim} numbers, and these have {reader.state_dim}")
        self.encoders, self.reranker = encoders, reranker
        self.pooled = head  # the name that checkpoints have for the weights of the stage-one head
        self.hubness = hubness
        self.wide_fields = reranker.wide_fields

    def with_calibration(self, calibration: Calibration, banks: HubnessBanks | None = None) -> "SingleMatcher":
        """A matcher with the same weights whose scores are corrected and calibrated by `calibration`.

        Raises ValueError for a hubness correction that does not fit the banks or the reranker.
        """
        hubness = None
        if calibration.hubness is not None:
            hubness = self._hubness_correction(calibration.hubness, banks)
        calibrated = SingleMatcher(
            self.model,
            self.encoders,
            self.reranker,
            self.pooled,
            self.reader,
            extractor_digest=self.extractor_digest,
            digest=self.digest,
            calibration=calibration,
            hubness=hubness,
        ).eval()
        calibrated.name, calibrated.kernels = self.name, self.kernels
        return calibrated

    def _hubness_correction(self, config: HubnessConfig, banks: HubnessBanks | None) -> HubnessCorrection:
        if banks is None or banks.sentences.width != self.word_dim:
            raise ValueError(f"the hubness correction needs a bank of sentence vectors {self.word_dim} wide")
        region_width = self.pooled.config.region_width
        if banks.pictures is not None and banks.pictures.width != region_width:
            raise ValueError(f"the hubness correction's bank of typical pictures must be {region_width} wide")
        compares_scores = config.similarity == "scores" and config.text_weight > 0
        if compares_scores and banks.pictures is None and not self.reranker.projects:
            raise ValueError(
                "this model's region vectors are raw features and no sentence's vector can stand for one: its hubness"
                " correction needs a bank of typical pictures, or must go by embeddings"
            )
        return HubnessCorrection(config, banks).to(self.device)

    @property
    def cosine_weight(self) -> float:
        """The weight of stage one's cosine in the score; 0 for none."""
        return self.calibration.cosine_weight if self.calibration else 0.0

    @property
    def feature_dim(self) -> int:
        return self.encoders.feature_dim

    @property
    def embed_dim(self) -> int:
        return self.pooled.config.output_width + (self.hubness.config.extra_dim if self.hubness else 0)

    @property
    def word_dim(self) -> int:
        return self.encoders.width

    @torch.no_grad()
    def encode_regions(self, regions: Regions) -> tuple[EncodedImages, Float[Tensor, "K E"]]:
        regions = of_width(regions, self.feature_dim, self.name)
        projected = self.reranker.project(regions.to(self.device, torch.float32))
        # Records are stored in fp16. Precomputation uses the rounded vectors: an attended vector's
        # inner product and its length must belong to the same vector.
        rounded = Regions(to_half(projected.vectors, "vectors").float(), projected.mask)
        embeddings = self.pooled.embed_images(rounded)
        if self.hubness is not None:
            embeddings = self.hubness.correct_image_embeddings(self.pooled, embeddings)
        return self.encode_projected(rounded), embeddings

    @torch.no_grad()
    def encode_projected(self, projected: Regions) -> EncodedImages:
        """Encoded pictures from the regions that `reranker.project` returned."""
        rows = self.reranker.precompute(projected)
        embedding = self._stage_one_fields(projected) if self.cosine_weight else None
        offset = None
        if self.hubness is not None:
            offset = self.hubness.image_offsets(self.reranker, self.pooled, projected, rows, self.kernels)
        return EncodedImages(rows, offset, embedding)

    def _stage_one_fields(self, projected: Regions) -> Float[Tensor, "K E1"]:
        """[e, -offset] of each picture's unit embedding e, rounded as in records."""
        embedding = self.pooled.embed_images(projected)
        rounded = embedding.half().to(embedding.dtype)
        offset = embedding.new_zeros(len(embedding))
        if self.hubness is not None:
            offset = self.hubness.stage_one_image_offsets(self.pooled, rounded)
        return torch.cat([rounded, -offset[:, None].half().to(embedding.dtype)], dim=1)

    def images_from(self, records: Mapping[str, np.ndarray]) -> EncodedImages:
        tensors = {name: torch.from_numpy(array).to(self.device) for name, array in records.items()}
        offset = None if self.hubness is None else tensors.pop(HUBNESS)
        embedding = tensors.pop(STAGE_ONE) if self.cosine_weight else None
        return EncodedImages(self.reranker.images_type(**tensors), offset, embedding).to(dtype=torch.float32)

    @torch.no_grad()
    def encode_tokens(self, tokens: ReadSentences) -> tuple[Words, Float[Tensor, "Q E"]]:
        words, embeddings, _ = self._encoded(tokens)
        return words, embeddings

    @torch.no_grad()
    def encode_texts(self, tokens: ReadSentences) -> tuple[EncodedTexts, Float[Tensor, "Q E"]]:
        words, embeddings, nearness = self._encoded(tokens)
        return self._texts(words, nearness, asked=True), embeddings

    def _encoded(self, tokens: ReadSentences) -> tuple[Words, Float[Tensor, "Q E"], Float[Tensor, " Q"] | None]:
        """Words, stage-one embeddings, and, with a hubness correction, the sentences' nearness to typical pictures."""
        words = self.reranker.encode_texts(tokens)
        embeddings = self.pooled.embed_texts(words)
        if self.hubness is None:
            return words, embeddings, None
        nearness = self.hubness.text_nearness(self.pooled, words, embeddings)
        return words, self.hubness.correct_text_embeddings(embeddings, nearness), nearness

    def similarity_query(self, embeddings: Float[Tensor, "K E"]) -> Float[Tensor, "K E"]:
        """Embeddings of pictures with a 0 for each additional number, which removes it from inner products."""
        width = self.pooled.config.output_width
        return torch.cat([embeddings[:, :width], torch.zeros_like(embeddings[:, width:])], dim=1)

    @property
    def short_question(self) -> int:
        return self.calibration.short_question if self.calibration else 0

    @torch.no_grad()
    def texts_from(self, words: Words, asked: bool = True) -> EncodedTexts:
        nearness = None if self.hubness is None else self.hubness.text_nearness(self.pooled, words)
        return self._texts(words, nearness, asked)

    def _texts(self, words: Words, nearness: Float[Tensor, " Q"] | None, asked: bool) -> EncodedTexts:
        """Sentences that can be scored, with their offset."""
        asks, zeros = words.mask.new_full((len(words),), asked), words.vectors.new_zeros(len(words))
        texts = EncodedTexts(words.vectors, words.mask, zeros, asks)
        not_short = self._not_short(texts)
        # Offsets are subtracted: a short question's score gets `short_summand` in place of the other summands.
        offset = (not_short - 1) * (self.calibration.short_summand if self.calibration else 0.0)
        if self.hubness is not None and nearness is not None:
            offset = offset + self.hubness.text_offsets(self.reranker, words, nearness, self.kernels)
            if self.cosine_weight:
                offset = offset + self.cosine_weight * not_short * self.hubness.stage_one_text_offsets(nearness)
        return replace(texts, offset=offset)

    @torch.no_grad()
    def score(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        return self.reranker.score(images.rows, texts.words) + self._further_summands(images, texts)

    @property
    def has_kernel(self) -> bool:
        """Whether `score_stored` supports float32 sentences, unless they are too long for a kernel."""
        kernels = self.kernels
        if kernels is None or self.wide_fields:  # kernels read fp16
            return False
        return kernels.device_type == self.device.type and kernels.knows(self.reranker.kernel_form)

    @torch.no_grad()
    def score_stored(
        self, records: Mapping[str, np.ndarray], rows: npt.NDArray[np.int64], texts: EncodedTexts
    ) -> Float[Tensor, "Q K"] | None:
        kernels, form = self.kernels, self.reranker.kernel_form
        if kernels is None or form is None or not self.has_kernel or texts.vectors.dtype != torch.float32:
            return None
        if not kernels.takes(records["mask"].shape[1], texts.mask.shape[1]):
            return None
        stored = field_reader(records, rows, self.device)
        question = self.reranker.kernel_question(texts.words, stored)
        scores = kernels.scores(form, records, rows, question, torch.get_num_threads())
        if self.cosine_weight:
            scores = scores + self._weighted_cosines(stored(STAGE_ONE), texts)
        return scores - self._offsets(None if self.hubness is None else stored(HUBNESS), texts)

    @torch.no_grad()
    def score_in_blocks(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        scores = score_in_blocks(self.reranker, images.rows, texts.words, kernels=table_kernels(self.kernels))
        return scores + self._further_summands(images, texts)

    def _further_summands(self, images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        """The parts of a score besides the reranker's."""
        offsets = self._offsets(images.offset, texts)
        if images.embedding is None:
            return -offsets.expand(len(texts), len(images))
        return self._weighted_cosines(images.embedding, texts) - offsets

    def _offsets(self, by_image: Float[Tensor, " K"] | None, texts: EncodedTexts) -> Float[Tensor, "Q #K"]:
        """The offset of every score: the sentence's, and except for short questions the picture's."""
        if by_image is None:
            return texts.offset[:, None]
        return texts.offset[:, None] + self._not_short(texts)[:, None] * by_image

    def _not_short(self, texts: EncodedTexts) -> Float[Tensor, " Q"]:
        """1 if stage one's cosine and the picture's offset are parts of the score, 0 for a short question."""
        return (~texts.are_short(self.short_question)).to(texts.vectors.dtype)

    def _cosine_weights(self, texts: EncodedTexts) -> Float[Tensor, " Q"]:
        """The weight of stage one's cosine in the score of each sentence."""
        return self.cosine_weight * self._not_short(texts)

    def _weighted_cosines(self, embedding: Float[Tensor, "K E1"], texts: EncodedTexts) -> Float[Tensor, "Q K"]:
        """Stage one's weighted cosines minus the pictures' offsets in stage one, a part of the score."""
        of_texts = self.pooled.embed_texts(texts.words)
        extended = torch.cat([of_texts, torch.ones_like(of_texts[:, :1])], dim=1)
        return self._cosine_weights(texts)[:, None] * (extended @ embedding.T)

    @torch.no_grad()
    def explain(self, images: EncodedImages, texts: EncodedTexts) -> Explanation:
        """The reranker's explanation with stage one's; the hubness offset is spread evenly over words and regions."""
        explanation = self.reranker.explain(images.rows, texts.words)
        offsets = self._offsets(images.offset, texts).expand(len(texts), len(images))
        if images.embedding is not None:
            offsets = offsets - self._cosine_weights(texts)[:, None] * images.embedding[:, -1]
            if explanation.contributions is not None:
                explanation = explanation.plus(*self._cosine_terms(images, texts))
        return explanation.rescaled(1.0, -offsets, texts.mask, images.region_mask)

    def _cosine_terms(
        self, images: EncodedImages, texts: EncodedTexts
    ) -> tuple[Float[Tensor, "Q K W"], Float[Tensor, "Q K W R"] | None]:
        """Contributions and shares of stage one's weighted cosine; no shares if rows have no projected regions."""
        assert images.embedding is not None
        vectors = images.rows.tensors().get("vectors")
        regions = None if vectors is None else Regions(vectors, images.region_mask)
        contributions, shares = self.pooled.terms_of_cosines(texts.words, images.embedding[:, :-1], regions)
        weights = self._cosine_weights(texts)[:, None, None]
        return weights * contributions, None if shares is None else weights.unsqueeze(3) * shares
