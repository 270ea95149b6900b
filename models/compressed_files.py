"""Lists of words and word pieces, shipped compressed: vocab.txt as vocab.txt.xz, a fifth of its size."""

import lzma
from pathlib import Path


def compressed(path: Path) -> Path:
    """The path of a file's compressed form."""
    return path.with_name(f"{path.name}.xz")


def is_stored(path: Path) -> bool:
    """Whether the file exists, compressed or not."""
    return compressed(path).is_file() or path.is_file()


def stored_text(path: Path) -> bytes:
    """The content of a file, from its compressed form if that exists.

    Raises ValueError if the compressed file is damaged, OSError if there is neither.
    """
    packed = compressed(path)
    if not packed.is_file():
        return path.read_bytes()
    try:
        return lzma.decompress(packed.read_bytes())
    except lzma.LZMAError as fault:
        raise ValueError(f"{packed}: {fault}; the copy is damaged") from fault


def write_compressed(path: Path, content: bytes) -> None:
    """Write a file in its compressed form."""
    from models.whole_files import write_whole  # noqa: PLC0415 - PyTorch comes with it

    write_whole(compressed(path), lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
