"""Stage one's warm-up with many captions: each batch of pictures against their captions and random others.

With e a picture's and t a sentence's unit embedding of stage one, the loss adds two cross entropies with the targets
of caption_targets.py: of softmax_c(e . t_c / T) over these captions, and of softmax_n(e_n . t / T) over the batch
for each of its own captions. Within a batch, a caption competes with few others; here, before a reranker is trained, it
learns to differ from thousands.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import log_softmax

from models.batches import Regions
from models.datasets.captioned_features import CaptionedFeatures
from models.matching.single_matcher import SingleMatcher
from models.text.pretrained_reader import PretrainedReader
from models.training.caption_targets import CaptionTargets
from models.training.losses import encode_sentences, stage_one_embeddings
from models.training.recipes import Recipe


class CaptionWarmup:
    """The loss of the warm-up for one set of captioned pictures."""

    def __init__(self, recipe: Recipe, data: CaptionedFeatures, reader: PretrainedReader) -> None:
        self._recipe = recipe
        self._sentences, _ = data.sentences()
        self._targets = CaptionTargets(reader.encoder, data.captions, recipe)

    def loss(self, matcher: SingleMatcher, projected: Regions, pictures: np.ndarray, step: int) -> Float[Tensor, ""]:
        """The loss of K projected pictures with indices `pictures` [K], and random captions by the step's number."""
        targets, device = self._targets.to(matcher.device), matcher.device
        numbers = torch.as_tensor(pictures, device=device)
        batch_captions = targets.captions_of(numbers)
        random = np.random.default_rng((self._recipe.seed, step))
        drawn = random.choice(len(self._sentences), min(self._recipe.warmup_captions, len(self._sentences)), False)
        others = torch.from_numpy(np.setdiff1d(drawn, batch_captions.cpu().numpy())).to(device)
        captions = torch.cat([batch_captions, others])
        tokens = matcher.tokenize([self._sentences[number] for number in captions.tolist()]).to(device)
        words = encode_sentences(matcher, tokens, self._recipe)
        sentences, images = stage_one_embeddings(matcher, projected, words, self._recipe)
        logits = images @ sentences.T / self._recipe.temperature
        to_text = targets.of_images(numbers, captions) * log_softmax(logits, 1)
        to_image = targets.of_captions(batch_captions, numbers) * log_softmax(logits[:, : len(batch_captions)].T, 1)
        return -(to_text.sum(1).mean() + to_image.sum(1).mean())
