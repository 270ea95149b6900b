"""BMP files without gaps, profiles or appended data."""

import struct

FILE_HEADER = 14
HEADER_SIZES = {12, 40, 52, 56, 64, 108, 124}
OLD_HEADER = 12  # with 16-bit sizes and palettes of three bytes
PLAIN, RLE_8, RLE_4, BIT_FIELDS, ALPHA_BIT_FIELDS = 0, 1, 2, 3, 6
MASK_BYTES = {BIT_FIELDS: 12, ALPHA_BIT_FIELDS: 16}  # after a header of 40 bytes
SRGB = b"BGRs"  # the colour space "sRGB", little-endian


def strip_bmp(content: bytes) -> bytes:
    """Headers, palette and pixels, contiguous; ValueError, IndexError or struct.error where they are irregular."""
    magic, _, _, pixels_at = struct.unpack_from("<2sIII", content)
    (size,) = struct.unpack_from("<I", content, FILE_HEADER)
    if magic != b"BM" or size not in HEADER_SIZES or len(content) < FILE_HEADER + size:
        raise ValueError("no BMP of a known kind")
    header = bytearray(content[FILE_HEADER : FILE_HEADER + size])
    palette_at = FILE_HEADER + size
    if size == OLD_HEADER:
        width, height, _, bits = struct.unpack_from("<HHHH", header, 4)
        pixel_bytes, palette_bytes = _rows(width, height, bits), 3 << bits if bits <= 8 else 0
    else:
        width, height, _, bits, compression, image_bytes = struct.unpack_from("<iiHHII", header, 4)
        colours = struct.unpack_from("<I", header, 32)[0]
        palette_bytes = 4 * min(colours or 1 << bits, 256) if bits <= 8 else 0
        if size == 40:
            palette_bytes += MASK_BYTES.get(compression, 0)
        if compression in (PLAIN, BIT_FIELDS, ALPHA_BIT_FIELDS):
            pixel_bytes = _rows(width, abs(height), bits)
        elif compression in (RLE_8, RLE_4):
            pixel_bytes = min(image_bytes, len(content) - pixels_at)
        else:
            raise ValueError("an unknown compression")
        if bits > 8:
            struct.pack_into("<II", header, 32, 0, 0)
        if size >= 108:
            _forget_profile(header)
    pixels = content[pixels_at : pixels_at + pixel_bytes]
    if len(pixels) < pixel_bytes or pixels_at < palette_at + palette_bytes or not pixel_bytes:
        raise ValueError("palette and pixels do not lie behind each other")
    palette = content[palette_at : palette_at + palette_bytes]
    start = palette_at + palette_bytes
    return struct.pack("<2sIII", magic, start + pixel_bytes, 0, start) + bytes(header) + palette + pixels


def _rows(width: int, height: int, bits: int) -> int:
    """Bytes of uncompressed pixels: rows are padded to four bytes."""
    if width <= 0 or bits not in (1, 2, 4, 8, 16, 24, 32):
        raise ValueError("a size or depth that no BMP has")
    return (width * bits + 31) // 32 * 4 * height


def _forget_profile(header: bytearray) -> None:
    """Declare sRGB in place of a linked or embedded profile, which may hold text; the profile itself is dropped."""
    if bytes(header[56:60]) in (b"KNIL", b"DEBM"):  # "LINK" and "MBED", little-endian
        header[56:60] = SRGB
    if len(header) >= 124:
        header[112:124] = bytes(12)
