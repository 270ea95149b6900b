"""Files that are written whole: whoever reads one finds what was there before, or all that is there now."""

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, durably. OSError names it, and leaves what was there before and nothing beside it."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as fault:
        partial.unlink(missing_ok=True)
        raise OSError(fault.errno, fault.strerror, str(path)) from fault


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Replace a safetensors file. Others may read it as any file (safetensors' own `save_file` keeps them from it)."""
    write_whole(path, save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}))


def _sync_folder(folder: Path) -> None:
    """Return when the names in the folder are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
