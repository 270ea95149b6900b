"""Descriptions inside picture files: caption and keywords, from XMP (Dublin Core) and IPTC.

Runs in decode_worker. What is too long, broken or built to harm
says nothing.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

import PIL.Image
from defusedxml import ElementTree
from PIL import IptcImagePlugin, JpegImagePlugin

LONGEST_CAPTION = 512  # characters, as everywhere; more is cut off
LONGEST_KEYWORD, LONGEST_KEYWORDS = 64, 512  # of one, and of all together
LARGEST_XMP = 256 * 1024  # bytes; cameras and programs write a tenth of it
MOST_ELEMENTS = 10_000
DC, RDF = "{http://purl.org/dc/elements/1.1/}", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
IPTC_KEYWORDS, IPTC_CAPTION, IPTC_CHARSET = (2, 25), (2, 120), (1, 90)
UTF_8 = b"\x1b%G"  # ISO 2022's announcement of UTF-8
UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\s]+")


class Description(NamedTuple):
    """A caption, empty where there is none, and keywords in their order."""

    caption: str
    keywords: tuple[str, ...]


NOTHING = Description("", ())


def read_description(image: PIL.Image.Image) -> Description:
    """The caption of a loaded picture, by XMP or else by IPTC, and the keywords of both.

    Raises what Pillow's and the XML parser's code raises on broken metadata: see `description_of`.
    """
    xmp, iptc = xmp_description(xmp_root(image.info.get("xmp"))), iptc_description(image)
    return Description(xmp.caption or iptc.caption, _distinct([*xmp.keywords, *iptc.keywords]))


def xmp_root(packet: object) -> Element | None:
    """The XMP packet of a file; None where there is none, or one that is too long.

    An XML error, ValueError for one that declares entities or a document type, or has very many elements.
    """
    if not isinstance(packet, bytes) or len(packet) > LARGEST_XMP:
        return None
    root: Element = ElementTree.fromstring(packet.rstrip(b"\x00 "), forbid_dtd=True)
    if sum(1 for _ in root.iter()) > MOST_ELEMENTS:
        raise ValueError(f"the XMP packet has more than {MOST_ELEMENTS} elements")
    return root


def xmp_description(root: Element | None) -> Description:
    """The description in an XMP packet."""
    if root is None:
        return NOTHING
    captions = [attribute for node in root.iter(f"{RDF}Description") if (attribute := node.get(f"{DC}description"))]
    for node in root.iter(f"{DC}description"):
        captions += _texts(node)
    keywords = [text for node in root.iter(f"{DC}subject") for text in _texts(node)]
    return Description(next(filter(None, map(shown, captions)), "")[:LONGEST_CAPTION].strip(), _distinct(keywords))


def iptc_description(image: PIL.Image.Image) -> Description:
    """The description in the IPTC block of a JPEG; such a block has at most 64 kB."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return NOTHING
    found = IptcImagePlugin.getiptcinfo(image) or {}
    utf_8 = found.get(IPTC_CHARSET) == UTF_8

    def texts(key: tuple[int, int]) -> list[str]:
        values = found.get(key, [])
        return [decoded(value, utf_8) for value in (values if isinstance(values, list) else [values])]

    caption = shown(" ".join(texts(IPTC_CAPTION)))[:LONGEST_CAPTION].strip()
    return Description(caption, _distinct(texts(IPTC_KEYWORDS)))


def decoded(value: bytes, utf_8: bool) -> str:
    """Text of IPTC: UTF-8 where it says so or is nothing else, Latin-1 as older programs wrote it otherwise."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("utf-8" if utf_8 else "latin-1", "replace")


def shown(text: str) -> str:
    """The text in one line, without what cannot be shown."""
    return UNSHOWN.sub(" ", text).strip()


def _texts(node: Element) -> list[str]:
    """The items of a list of RDF, in their order, or the text of what is no list.

    A list is an element of the property. Items further down are not looked for: properties can be nested very deep.
    """
    items = [item.text or "" for item in node.findall(f"*/{RDF}li")]
    return items or [node.text or ""]


def _distinct(keywords: Iterable[str]) -> tuple[str, ...]:
    """Keywords that can be shown, each once, as many as have room."""
    kept: list[str] = []
    room = LONGEST_KEYWORDS
    for keyword in dict.fromkeys(shown(one)[:LONGEST_KEYWORD].strip() for one in keywords):
        if keyword and len(keyword) + 2 <= room:
            kept.append(keyword)
            room -= len(keyword) + 2
    return tuple(kept)
