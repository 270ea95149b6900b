"""Lists of words and of pieces, which are shipped compressed: vocab.txt as vocab.txt.xz, a fifth of it."""

import lzma
from pathlib import Path

from models.whole_files import write_whole


def compressed(path: Path) -> Path:
    """The file with the compressed content of another."""
    return path.with_name(f"{path.name}.xz")


def is_stored(path: Path) -> bool:
    """Whether the file is there, compressed or as it is."""
    return compressed(path).is_file() or path.is_file()


def stored_text(path: Path) -> bytes:
    """The content of a file, as the compressed one has it, or the file itself where there is none.

    ValueError where the compressed one is damaged, OSError where there is neither.
    """
    packed = compressed(path)
    if not packed.is_file():
        return path.read_bytes()
    try:
        return lzma.decompress(packed.read_bytes())
    except lzma.LZMAError as fault:
        raise ValueError(f"{packed}: {fault}; the copy is damaged") from fault


def write_compressed(path: Path, content: bytes) -> None:
    """Write the content of the file, compressed."""
    write_whole(compressed(path), lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
