"""Questions that are a file's name: as cameras and telephones give it (IMG_0412), or one word with a picture's
extension (holiday.jpg)."""

import re

from index.catalog.text.search import is_date

_CAMERAS = r"(?:_?(?:img|mg|dsc[fn]?|pxl|vid|mvimg|gopr|dji|cimg|pict?|sam|wa|p)[-_ ]?)"
_ENDINGS = (
    r"(?:\.(?:jpe?g?|jfif|png|webp|hei[cf]|hif|avif|tiff?|gif|bmp|3fr|arw|cr[23]|dng|erf|iiq|kdc|mef|mrw|nef|nrw|orf|pef"
    r"|raf|raw|rw[2l]|sr[2w]|x3f))"
)
_NAME = re.compile(rf"\s*(?:{_CAMERAS}\d{{4}}[-\w]*{_ENDINGS}?|\S+{_ENDINGS})\s*", re.IGNORECASE)


def is_file_name(question: str) -> bool:
    """Whether a question is the name of a photograph's file, and no date. No picture shows that."""
    return _NAME.fullmatch(question) is not None and not is_date(question)
