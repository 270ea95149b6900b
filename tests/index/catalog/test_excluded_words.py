"""Words after a minus sign, which a picture's text must not contain."""

import pytest

from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from tests.support.catalogs import make_ready, picture


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("beach -dog", ["empty"]),
        ("-dog beach", ["empty"]),
        ('beach -"the dog"', ["empty", "two"]),  # words in quotation marks stand together
        ("beach -dogs", ["empty"]),
        ("beach -dog -sea", []),
        ("-dog", []),  # asks for no word
        ("beach - dog", ["one", "two"]),
        ("beach-dog", []),  # written together
        ('beach -"', ["one", "two", "empty"]),
    ],
)
def test_a_word_after_a_minus_sign_must_not_occur(catalog: Catalog, question: str, found: list[str]) -> None:
    captions = {"one": "the dog on the beach", "two": "a beach, and a dog", "empty": "a beach by the sea"}
    catalog.take_in([picture(name, captions=[caption]) for name, caption in captions.items()], 1.0)
    make_ready(catalog, *captions)
    matches = catalog.texts.matches(question, 100, Filter())
    assert sorted(match.image.image_id for match in matches) == sorted(found)
