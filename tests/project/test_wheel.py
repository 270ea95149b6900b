"""The wheel that the image installs is whole: every module, weight and page of the project is in the wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.project_files import ROOT, project_files

PACKAGES = ("models", "index", "service")
BUILT_FROM = "service/page/"  # sources of service/web, which is what is installed


def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    subprocess.run([sys.executable, *build, source], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("regard-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path for path in project_files() if path.startswith(tuple(f"{name}/" for name in PACKAGES))}
    assert {path for path in wanted if not path.startswith(BUILT_FROM)} <= held
