"""Building the kernels: for which processors, with which compiler, and what is said where none works."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.kernels import build, targets
from models.kernels.build import CannotBuild, Compiler, main
from models.kernels.targets import V3, V4, X86_LEVELS, built_file, processor_features, targets_of, usable_targets
from tests.support.project_files import ROOT

# A stand-in for a compiler: it writes its arguments into the file that it is asked for.
FAKE_COMPILER = """#!/bin/sh
all="$*"
while [ "$#" -gt 1 ]; do if [ "$1" = -o ]; then echo "$all" > "$2"; fi; shift; done
"""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that holds all that can be found, on a machine without ziglang."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return programs


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script.replace("#!/bin/sh", "#!/bin/sh\nPATH=/usr/bin:/bin"))
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", V4, ["x86-64-v4", "x86-64-v3"]),
        ("AMD64", V3, ["x86-64-v3"]),
        ("x86_64", V4 - {"avx512bw"}, ["x86-64-v3"]),
        ("x86_64", V4 - {"f16c"}, []),
        ("x86_64", frozenset(), []),
        ("aarch64", frozenset(), ["aarch64"]),
        ("arm64", frozenset(), ["aarch64"]),
        ("riscv64", V4, []),
    ],
)
def test_a_processor_gets_what_it_can_run(machine: str, features: frozenset[str], expected: list[str]) -> None:
    assert usable_targets(machine, features) == expected


def test_the_features_are_those_that_linux_names(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx2 f16c\nvmx flags\t: other\n\nflags\t: of another core\n")
    assert processor_features(cpuinfo) == {"fpu", "avx2", "f16c"}
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert processor_features(cpuinfo) == frozenset()
    assert processor_features(tmp_path / "none") == frozenset()


def test_other_sources_and_other_options_have_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernels.c"
    source.write_text("int one;")
    monkeypatch.setattr(targets, "SOURCE", tmp_path)
    names = [built_file("x86-64-v3")]
    source.write_text("int two;")
    names.append(built_file("x86-64-v3"))
    (tmp_path / "more.h").write_text("")
    names.append(built_file("x86-64-v3"))
    monkeypatch.setattr(targets, "FLAGS", ("-O1",))
    names.append(built_file("x86-64-v3"))
    assert len(set(names)) == 4


def test_the_first_compiler_that_works_is_taken(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(alone, "clang", "#!/bin/sh\necho clang knows no half >&2; exit 1\n")
    program(alone, "gcc", FAKE_COMPILER)
    folder = tmp_path / "built"
    stale = folder / "regard-x86-64-v3-000000000000.so"
    folder.mkdir()
    stale.write_bytes(b"")
    assert main(["--folder", str(folder)]) == 0
    expected = [built_file(target, folder) for target in targets_of(targets.this_machine())]
    assert sorted(folder.iterdir()) == sorted(expected), "what other sources were built to is removed"
    assert capsys.readouterr().out.splitlines() == [str(path) for path in expected]
    for path in expected:
        assert "kernels.c" in path.read_text()
        path.write_text("built before")
    assert main(["--folder", str(folder)]) == 0
    assert all(path.read_text() == "built before" for path in expected), "what is there is not built again"


def test_what_every_compiler_said_is_told(alone: Path, tmp_path: Path) -> None:
    for name in ("clang", "gcc"):
        program(alone, name, f"#!/bin/sh\necho {name} knows no half >&2; exit 1\n")
    (alone / "cc").write_text("no program")
    (alone / "cc").chmod(0o755)
    with pytest.raises(CannotBuild, match=r"(?s)clang knows no half.*gcc knows no half.*cc: .*[Ee]xec format"):
        build.build_target("x86-64-v3", tmp_path / "built")
    assert list((tmp_path / "built").iterdir()) == []


def test_without_any_compiler_the_command_fails_in_words(
    alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--folder", str(tmp_path / "built")]) == 1
    assert "neither clang nor gcc nor the Python package ziglang" in capsys.readouterr().err
    monkeypatch.setattr(build, "this_machine", lambda: "riscv64")
    assert main(["--folder", str(tmp_path / "built")]) == 1
    assert "PyTorch computes the scores" in capsys.readouterr().err


def test_zig_is_told_the_processor_in_its_own_words() -> None:
    zig = Compiler(("zig", "cc"), is_zig=True)
    for target in X86_LEVELS:
        assert f"-march={target.replace('-', '_')}" in zig.flags(target)
        assert f"-march={target}" in Compiler(("gcc",)).flags(target)
    assert "-mcpu=baseline" in zig.flags("aarch64")


def test_ziglang_is_taken_where_there_is_no_other(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert list(build.compilers()) == [Compiler((sys.executable, "-m", "ziglang", "cc"), is_zig=True)]


def test_building_needs_no_package_of_others() -> None:
    """It runs before anything is installed: with the standard library alone."""
    code = "import sys; sys.modules['torch'] = sys.modules['numpy'] = None; import models.kernels.build"
    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=ROOT, env={"PATH": os.defpath})
