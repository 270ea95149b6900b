"""Questions that are a file's name, as cameras and telephones give it: IMG_0412, DSC01234.ARW."""

import re

from index.catalog.text.search import is_date

_CAMERAS = r"(?:_?(?:img|mg|dsc[fn]?|pxl|vid|mvimg|gopr|dji|cimg|pict?|sam|wa|p)[-_ ]?)"
_ENDINGS = r"(?:\.(?:jpe?g|png|webp|heic|heif|avif|tiff?|gif|bmp|arw|cr[23]|dng|nef|orf|raf|rw2))"
_NAME = re.compile(rf"\s*(?:{_CAMERAS}\d{{4}}[-\w]*{_ENDINGS}?|[-\w]*\d{{4}}[-\w]*{_ENDINGS})\s*", re.IGNORECASE)


def is_file_name(question: str) -> bool:
    """Whether a question is the name of a photograph's file, and no date. No picture shows that."""
    return _NAME.fullmatch(question) is not None and not is_date(question)
