"""Questions in words: what of them is scored, and whether anything answers them."""

from torch import Tensor

from models.matching.matcher import EncodedTexts, Matcher
from models.text.reader import END, START
from service.errors import InvalidRequest
from service.search.candidates import Candidates


def words_of(matcher: Matcher, sentence: str) -> list[str]:
    """The tokens that are scored; InvalidRequest where the sentence holds no word."""
    try:
        return matcher.words(sentence)
    except ValueError as fault:
        raise InvalidRequest.field("query", str(fault)) from fault


def encoded_sentence(matcher: Matcher, sentence: str) -> tuple[EncodedTexts, Tensor]:
    """The encoded sentence and [1, E] embedding of a query; InvalidRequest where it holds no word."""
    try:
        return matcher.encode_sentences([sentence])
    except ValueError as fault:
        raise InvalidRequest.field("query", str(fault)) from fault


def verdict(candidates: Candidates, matcher: Matcher, sentence: str, has_text: bool) -> bool | None:
    """Whether anything matches a sentence: words that a picture's text holds do, keyboard noise alone never does."""
    if has_text:
        return True
    words = [word for word in words_of(matcher, sentence) if word not in (START, END)]
    if set(words) <= set(matcher.unknown_words(sentence)):
        return False
    return candidates.matched
