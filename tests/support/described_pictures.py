"""Picture files with captions and keywords in their metadata."""

import struct
from xml.sax.saxutils import escape

import PIL.Image

from tests.support.pictures import corners, encoded

NAMESPACES = (
    'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:exif="http://ns.adobe.com/exif/1.0/"'
)


def xmp(body: str, before: str = "", attributes: str = "") -> bytes:
    """An XMP packet."""
    return (
        f'{before}<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {NAMESPACES}><rdf:Description {attributes}>{body}'
        "</rdf:Description></rdf:RDF></x:xmpmeta>"
    ).encode()


def described(caption: str, *keywords: str) -> bytes:
    """An XMP packet with a caption and keywords."""
    items = "".join(f"<rdf:li>{escape(keyword)}</rdf:li>" for keyword in keywords)
    return xmp(
        f'<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{escape(caption)}</rdf:li></rdf:Alt></dc:description>'
        f"<dc:subject><rdf:Bag>{items}</rdf:Bag></dc:subject>"
    )


def jpeg(packet: bytes = b"", iptc: bytes = b"", picture: PIL.Image.Image | None = None) -> bytes:
    """A JPEG with an XMP packet and an IPTC block."""
    plain = encoded(picture or corners(), "JPEG")
    segments = b""
    if packet:
        body = b"http://ns.adobe.com/xap/1.0/\0" + packet
        segments += b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    if iptc:
        padded = iptc + bytes(len(iptc) % 2)
        body = b"Photoshop 3.0\x008BIM" + struct.pack(">HH", 0x0404, 0) + struct.pack(">I", len(iptc)) + padded
        segments += b"\xff\xed" + struct.pack(">H", len(body) + 2) + body
    return plain[:2] + segments + plain[2:]


def iptc_block(*fields: tuple[int, int, bytes]) -> bytes:
    return b"".join(struct.pack(">BBBH", 0x1C, record, number, len(text)) + text for record, number, text in fields)
