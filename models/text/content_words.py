"""Content words of English, which name what a picture may show, told from function words.

A function word's vector, as a sentence encoder gives it, means what the sentence around it means. What it adds to a
score is often much, and nothing that can be pointed at. What counts or denies ("two", "no") and what says where
("behind") is looked for in pictures, and counts as content.
"""

_FUNCTION_WORDS = (
    "a an the this that these those some any my your his her its our their and or but of in on at to by for from with"
    " as is are was were be been being has have had do does did who whom which what there"
    " i me you he him she it we us they them n't"
    # What a reader that splits at apostrophes makes of "it's", "isn't", "I'm", "we'll".
    " s t m d re ll ve isn doesn didn aren wasn weren couldn shouldn wouldn hasn hadn ain"
)
_NO_CONTENT = frozenset(_FUNCTION_WORDS.split())


def is_content_word(text: str) -> bool:
    """Whether a word, as a reader of sentences splits them, is a content word; endings ('s, n't) and marks are none."""
    word = text.lower().replace("’", "'")
    return any(letter.isalnum() for letter in word) and not word.startswith("'") and word not in _NO_CONTENT
