"""Descriptions inside picture files: caption and keywords, from XMP (Dublin Core) and IPTC.

Runs in decode_worker; XMP is also read from files beside pictures, by the command line. Metadata that is too long,
broken or malicious is ignored.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

import PIL.Image
from defusedxml import ElementTree
from PIL import IptcImagePlugin, JpegImagePlugin

LONGEST_CAPTION = 512  # characters, as for all captions; the rest is cut off
LONGEST_KEYWORD, LONGEST_KEYWORDS = 64, 512  # characters of one, and of all together
LARGEST_XMP = 256 * 1024  # bytes; cameras and programs write a tenth of that
MOST_ELEMENTS = 10_000
DC, RDF = "{http://purl.org/dc/elements/1.1/}", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
IPTC_KEYWORDS, IPTC_CAPTION, IPTC_CHARSET = (2, 25), (2, 120), (1, 90)
UTF_8 = b"\x1b%G"  # the ISO 2022 escape sequence for UTF-8
UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\s]+")


class Description(NamedTuple):
    """A caption, empty if missing, and keywords in order."""

    caption: str
    keywords: tuple[str, ...]


NOTHING = Description("", ())


def read_description(image: PIL.Image.Image) -> Description:
    """The caption of a loaded picture, from XMP or else IPTC, and the keywords of both.

    Raises the errors of Pillow and of the XML parser for broken metadata: see `description_of`.
    """
    xmp, iptc = xmp_description(xmp_root(image.info.get("xmp"))), iptc_description(image)
    return Description(xmp.caption or iptc.caption, distinct_keywords([*xmp.keywords, *iptc.keywords]))


def xmp_root(packet: object, most_bytes: int = LARGEST_XMP) -> Element | None:
    """The XMP packet of a file; None if it is missing or longer than `most_bytes`.

    Raises an XML error, or ValueError for a packet that declares entities or a document type, or has too many elements.
    """
    if not isinstance(packet, bytes) or len(packet) > most_bytes:
        return None
    root: Element = ElementTree.fromstring(packet.rstrip(b"\x00 "), forbid_dtd=True)
    if sum(1 for _ in root.iter()) > MOST_ELEMENTS:
        raise ValueError(f"the XMP packet has more than {MOST_ELEMENTS} elements")
    return root


def xmp_description(root: Element | None) -> Description:
    """The description in an XMP packet."""
    if root is None:
        return NOTHING
    caption = first_shown(xmp_texts(root, f"{DC}description"))
    return Description(caption[:LONGEST_CAPTION].strip(), distinct_keywords(xmp_texts(root, f"{DC}subject")))


def xmp_texts(root: Element, name: str) -> list[str]:
    """The texts of a property, which XMP writes as attributes, as elements and as lists."""
    attributes = [text for node in root.iter(f"{RDF}Description") if (text := node.get(name))]
    return attributes + [text for node in root.iter(name) for text in _texts(node)]


def iptc_description(image: PIL.Image.Image) -> Description:
    """The description in the IPTC block of a JPEG; such a block has at most 64 kB."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return NOTHING
    records = IptcImagePlugin.getiptcinfo(image) or {}
    is_utf_8 = records.get(IPTC_CHARSET) == UTF_8

    def texts(key: tuple[int, int]) -> list[str]:
        values = records.get(key, [])
        return [decoded(value, is_utf_8) for value in (values if isinstance(values, list) else [values])]

    caption = shown(" ".join(texts(IPTC_CAPTION)))[:LONGEST_CAPTION].strip()
    return Description(caption, distinct_keywords(texts(IPTC_KEYWORDS)))


def decoded(value: bytes, is_utf_8: bool) -> str:
    """An IPTC text: UTF-8 if declared or valid as such, otherwise Latin-1, as older programs wrote it."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("utf-8" if is_utf_8 else "latin-1", "replace")


def shown(text: str) -> str:
    """The text in one line, without unprintable characters."""
    return UNSHOWN.sub(" ", text).strip()


def first_shown(texts: Iterable[str]) -> str:
    """The first text with something to show, as `shown`; "" if there is none."""
    return next(filter(None, map(shown, texts)), "")


def _texts(node: Element) -> list[str]:
    """The items of an RDF list, in order, or the text of a property that is no list.

    A list is a child of the property's element. Deeper items are ignored: properties can be nested very deep.
    """
    items = [item.text or "" for item in node.findall(f"*/{RDF}li")]
    return items or [node.text or ""]


def distinct_keywords(keywords: Iterable[str]) -> tuple[str, ...]:
    """Printable keywords, each once, as many as there is room for."""
    distinct: list[str] = []
    room = LONGEST_KEYWORDS
    for keyword in dict.fromkeys(shown(text)[:LONGEST_KEYWORD].strip() for text in keywords):
        if keyword and len(keyword) + 2 <= room:
            distinct.append(keyword)
            room -= len(keyword) + 2
    return tuple(distinct)
