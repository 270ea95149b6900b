"""The processors that kernels are built for, this machine's kind, and the paths of the built files.

A file's name holds a digest of sources and compiler options, so that no other version is ever loaded.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "source"
BUILT = Path(__file__).parent / "built"
MAIN = SOURCE / "kernels.c"

# No -ffast-math, since NaN and infinities must propagate as in PyTorch.
FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
X86_FLAGS = ("-mprefer-vector-width=512",)

V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# Levels of x86-64 -> required features, by their names in /proc/cpuinfo; the best first.
X86_LEVELS: Mapping[str, frozenset[str]] = {"x86-64-v4": V4, "x86-64-v3": V3}
X86, ARM = ("x86_64", "amd64"), ("aarch64", "arm64")


def targets_of(machine: str) -> Sequence[str]:
    """The targets that kernels are built for on a kind of machine, the best first; empty for unsupported kinds."""
    if machine.lower() in X86:
        return tuple(X86_LEVELS)
    return ("aarch64",) if machine.lower() in ARM else ()


def usable_targets(machine: str, features: Iterable[str]) -> Sequence[str]:
    """The targets of `targets_of` that a processor with these features can run."""
    available = set(features)
    return [target for target in targets_of(machine) if X86_LEVELS.get(target, frozenset()) <= available]


def processor_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The features of this machine's x86-64 processor by Linux's names; empty if unknown."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            name, _, features = line.partition(":")
            if name.strip() == "flags":
                return frozenset(features.split())
    return frozenset()


def compiler_flags(target: str) -> list[str]:
    """The compiler's options for a target."""
    return [*FLAGS, *([f"-march={target}", *X86_FLAGS] if target in X86_LEVELS else [])]


def built_file(target: str, folder: Path = BUILT) -> Path:
    """The path of the kernels for a target when built from these sources."""
    digest = hashlib.sha256(" ".join(compiler_flags(target)).encode())
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return folder / f"regard-{target}-{digest.hexdigest()[:12]}.so"


def this_machine() -> str:
    """The kind of this machine, such as x86_64."""
    return platform.machine()
