"""The build of the kernels: `python -m models.kernels.build`. Needs only this package of Regard.

It uses clang or gcc (12 or newer) if one works, else the C compiler in the PyPI package ziglang if that is installed;
it is not needed after the build. Without a compiler, Regard computes the same in PyTorch.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.kernels.targets import BUILT, MAIN, X86_LEVELS, built_file, compiler_flags, targets_of, this_machine

SYSTEM_COMPILERS = ("clang", "gcc", "cc")


class CannotBuild(Exception):
    """No compiler works; the message holds the output of each."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its command, and whether it is zig, which has different names for processors."""

    command: tuple[str, ...]
    is_zig: bool = False

    def flags(self, target: str) -> list[str]:
        """The options for a target."""
        if not self.is_zig:
            return compiler_flags(target)
        flags = [flag.replace(target, target.replace("-", "_")) for flag in compiler_flags(target)]
        return (
            flags if target in X86_LEVELS else [*flags, "-mcpu=baseline"]
        )  # zig's default is the processor it runs on


def compilers() -> Iterator[Compiler]:
    """The compilers on this machine, the preferred first."""
    for name in SYSTEM_COMPILERS:
        if path := shutil.which(name):
            yield Compiler((path,))
    if importlib.util.find_spec("ziglang") is not None:
        yield Compiler((sys.executable, "-m", "ziglang", "cc"), is_zig=True)


def compile_kernels(command: Sequence[str], flags: Sequence[str], into: Path) -> None:
    """Compile to the file `into`, atomically. Raises CannotBuild with the compiler's output."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        output = Path(folder) / into.name
        full_command = [*command, *flags, "-o", str(output), str(MAIN), "-lm"]
        try:
            result = subprocess.run(full_command, capture_output=True, text=True, check=False)
        except OSError as fault:
            raise CannotBuild(f"{command[0]}: {fault}") from fault
        if result.returncode or not output.is_file():
            raise CannotBuild(f"{' '.join(full_command)}: {result.stderr[-2000:]}")
        output.chmod(0o755)
        output.replace(into)


def build_target(target: str, folder: Path = BUILT) -> Path:
    """The file of the kernels for a target, built unless it exists. Raises CannotBuild if no compiler works."""
    path = built_file(target, folder)
    faults = []
    for compiler in () if path.is_file() else compilers():
        try:
            compile_kernels(compiler.command, compiler.flags(target), path)
            break
        except CannotBuild as fault:
            faults.append(str(fault))
    if not path.is_file():
        raise CannotBuild("\n".join(faults) or "there is neither clang nor gcc nor the Python package ziglang")
    return path


def remove_others(keep: Sequence[Path], folder: Path = BUILT) -> None:
    """Remove kernels that were built from earlier sources."""
    for path in folder.glob("regard-*.so"):
        if path not in keep:
            path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build for this kind of machine; returns 1 on failure, with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="python -m models.kernels.build", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, default=BUILT, help="folder for the built files")
    folder = parser.parse_args(arguments).folder
    targets = targets_of(this_machine())
    if not targets:
        print(f"There are no kernels for {this_machine()}: PyTorch computes the scores.", file=sys.stderr)
        return 1
    try:
        paths = [build_target(target, folder) for target in targets]
    except CannotBuild as fault:
        print(f"The kernels cannot be built: {fault}", file=sys.stderr)
        return 1
    remove_others(paths, folder)
    print(*paths, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
