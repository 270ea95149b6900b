"""The initial matcher of a training."""

import hashlib
import json
from pathlib import Path

from models.datasets.captioned_features import CaptionedFeatures
from models.matching.checkpoint import new_matcher
from models.matching.single_matcher import SingleMatcher
from models.matching.stage_one import StageOneConfig
from models.rerankers.encoders import EncoderConfig
from models.text.pretrained_reader import PretrainedReader
from models.text.reader import SentenceReader
from models.text.vocabulary import Vocabulary
from models.training.recipes import RECIPES, Recipe
from models.training.word_init import init_word_embeddings
from models.training.word_map import start_maps


def initial_matcher(
    recipe: Recipe, train: CaptionedFeatures, initial: SingleMatcher | None, reader: PretrainedReader | None = None
) -> SingleMatcher:
    """The matcher before the first step, with the weights of `initial` as far as it has them, else random ones.

    Raises ValueError if the recipe starts from another one's weights and `initial` is None, of another model or for
    other features, or if it does not and `initial` is given.
    """
    if (recipe.starts_from is None) != (initial is None):
        raise ValueError(f"this recipe starts from {recipe.starts_from or 'random weights'}: give just that")
    if initial and recipe.starts_from in RECIPES and initial.model != RECIPES[recipe.starts_from].model:
        raise ValueError(f"this recipe starts from {recipe.starts_from}, and these are weights of {initial.name}")
    if initial and initial.extractor_digest != train.extractor_digest:
        raise ValueError(
            f"{initial.name} is for features of {initial.extractor_digest}, and these are of {train.extractor_digest}"
        )
    matcher = untrained_matcher(recipe, train, initial.reader if initial else reader)
    if recipe.aligned and initial is None:
        start_maps(matcher, train, principal=recipe.word_map == "principal")
    if initial:
        try:
            surplus = matcher.load_state_dict(initial.state_dict(), strict=False).unexpected_keys
        except RuntimeError as fault:  # whose message would name every weight
            raise ValueError(
                f"{initial.name} has weights of other sizes than this recipe: set width, word_dim, embed_dim and"
                " options as its config.json has them"
            ) from fault
        if surplus:
            raise ValueError(f"{recipe.model} has no place for {', '.join(surplus)} of {initial.name}")
    parts = [name for name, _ in matcher.reranker.named_children()]
    if unknown := sorted({part.partition(".")[0] for part in recipe.trained} - set(parts)):
        raise ValueError(f"trained: {recipe.model} has no part {', '.join(unknown)}; it has: {', '.join(parts)}")
    if recipe.grounding_weight and matcher.pooled.config.region_width != matcher.word_dim:
        raise ValueError(f"regions and words of {recipe.model} are not in one space: set grounding_weight=0")
    for name, weight in matcher.reranker.named_parameters():
        weight.requires_grad_(not recipe.trained or name.startswith(recipe.trained))
    return matcher


def init_words(recipe: Recipe, matcher: SingleMatcher, word_vectors: Path | None) -> int:
    """Initialise the word embeddings from a file of vectors, if any; returns how many of the words it has.

    Raises ValueError if a recipe with near words has no file.
    """
    if word_vectors is not None:
        if recipe.text == "pretrained" or recipe.starts_from is not None:
            raise ValueError("pretrained text, and weights to go on from, have no word vectors to start: give none")
        return init_word_embeddings(matcher, word_vectors, recipe.near)
    if recipe.near is not None and recipe.starts_from is None:
        raise ValueError("this recipe reads unknown words as near ones: give word vectors, which say what is near")
    return 0


def digest_of_words(reader: SentenceReader, train: CaptionedFeatures) -> str:
    """16 hex digits over the words in the order of their ids and the near words, or over encoder and captions."""
    if isinstance(reader, Vocabulary):
        content = json.dumps([reader.words, sorted(reader.near_words.items())])
    else:
        content = json.dumps([reader.identity, [list(texts) for texts in train.captions]])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def untrained_matcher(recipe: Recipe, train: CaptionedFeatures, reader: SentenceReader | None = None) -> SingleMatcher:
    """A matcher of a recipe's sizes with random weights, by default with the vocabulary of the training captions.

    Raises ValueError if the reader does not fit the recipe's text.
    """
    if reader is None:
        captions = (text for texts in train.captions for text in texts)
        reader = Vocabulary.from_captions(captions, recipe.least_count)
    encoders = EncoderConfig(
        num_words=len(reader) if isinstance(reader, Vocabulary) else 0,
        feature_dim=train.feature_dim,
        word_dim=recipe.word_dim,
        width=recipe.width,
        unit_regions=recipe.unit_vectors,
        unit_words=recipe.unit_vectors,
        feature_dropout=recipe.feature_dropout,
        word_dropout=recipe.word_dropout,
        region_dropout=recipe.region_dropout,
        text=recipe.text,
        recurrent=recipe.recurrent,
        state_dim=reader.state_dim if isinstance(reader, PretrainedReader) else EncoderConfig.state_dim,
        concept_dim=recipe.concept_dim,
        aligned=recipe.aligned,
        concept_start=recipe.concept_start,
    )
    head = StageOneConfig(width=recipe.width, embed_dim=recipe.embed_dim)
    matcher = new_matcher(recipe.model, encoders, head, reader, train.extractor_digest, options=recipe.options)
    matcher.name = recipe.name or recipe.model
    return matcher
