"""Content words of English, which name what a picture may show, as opposed to function words.

In a sentence encoder, a function word's vector represents the sentence around it. It often contributes much to a score,
but nothing that could be pointed at. Numbers, negations ("two", "no") and words of place ("behind") describe pictures,
and count as content.
"""

_FUNCTION_WORDS = (
    "a an the this that these those some any my your his her its our their and or but of in on at to by for from with"
    " as is are was were be been being has have had do does did who whom which what there"
    " i me you he him she it we us they them n't"
    # Parts of "it's", "isn't", "I'm" and "we'll" for a reader that splits at apostrophes.
    " s t m d re ll ve isn doesn didn aren wasn weren couldn shouldn wouldn hasn hadn ain"
)
_NO_CONTENT = frozenset(_FUNCTION_WORDS.split())


def is_content_word(text: str) -> bool:
    """Whether a word from a reader of sentences is a content word; endings ('s, n't) and marks are not."""
    word = text.lower().replace("’", "'")
    return any(letter.isalnum() for letter in word) and not word.startswith("'") and word not in _NO_CONTENT
