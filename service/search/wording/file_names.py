"""Questions that are a file's name, as cameras and telephones give it: IMG_0412, DSC01234.ARW."""

import re

from index.catalog.text.search import is_date

_NAME = re.compile(r"\s*\S*\d{4}\S*\s*")


def is_file_name(question: str) -> bool:
    """Whether a question is a single word with four digits in a row, and no date. No picture shows that."""
    return _NAME.fullmatch(question) is not None and not is_date(question)
