"""The kernels read and write nothing beyond their arrays and do nothing undefined: built with sanitizers, and run."""

import subprocess
from pathlib import Path

import pytest

from models.kernels.build import CannotBuild, compilers
from models.kernels.targets import SOURCE, compiler_flags, processor_features, this_machine, usable_targets

PROGRAM = Path(__file__).parent / "sanitised.c"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1", f"-I{SOURCE}", "-lm")
TARGETS = usable_targets(this_machine(), processor_features())


def sanitised(target: str, folder: Path) -> Path:
    """The program built for a target; CannotBuild where no compiler has sanitizers."""
    flags = [flag for flag in compiler_flags(target) if flag not in ("-shared", "-O3")]
    empty, made = folder / "empty.c", folder / "sanitised"
    empty.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    for compiler in compilers():
        command = [*compiler.command, *flags, "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-o", str(made)]
        if subprocess.run([*command, str(empty), *SANITIZERS], capture_output=True, check=False).returncode:
            continue  # such as zig, which comes without the sanitizers' libraries
        subprocess.run([*command, str(PROGRAM), *SANITIZERS], check=True)
        return made
    raise CannotBuild("no compiler here has sanitizers")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_undefined(target: str, tmp_path: Path) -> None:
    try:
        program = sanitised(target, tmp_path)
    except CannotBuild as fault:
        pytest.skip(str(fault))
    ran = subprocess.run([program], capture_output=True, text=True, check=False, env={})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "nothing found\n", "")
    # And a fault would be found.
    found = subprocess.run([program, "one too many"], capture_output=True, text=True, check=False, env={})
    assert found.returncode != 0
    assert "heap-buffer-overflow" in found.stderr
