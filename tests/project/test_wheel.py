"""Wheels are whole: that of the image holds every module, weight and page of the project, the client's every module."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.project_files import ROOT, project_files

PACKAGES = ("models", "index", "service")
CLIENT = "clients/python/"
CLIENT_PACKAGE = f"{CLIENT}regard_client/"
BUILT_FROM = "service/page/"  # sources of service/web, which is what is installed


def held_by_wheel(source: Path, target: Path) -> set[str]:
    """The files in the wheel that is built of a project."""
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target)]
    subprocess.run([sys.executable, *build, source], check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def copy_folder(name: str, target: Path) -> None:
    """Copy a folder of the project, without what tools made in it."""
    shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))


def client_modules() -> set[str]:
    """The files of the client's package, as a wheel names them."""
    return {path.removeprefix(CLIENT) for path in project_files() if path.startswith(CLIENT_PACKAGE)}


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for name in (*PACKAGES, "clients"):
        copy_folder(name, source)
    held = held_by_wheel(source, tmp_path)
    wanted = {path for path in project_files() if path.startswith(tuple(f"{name}/" for name in PACKAGES))}
    assert {path for path in wanted if not path.startswith(BUILT_FROM)} <= held
    assert client_modules() <= held


def test_the_wheel_of_the_client_holds_the_client_alone(tmp_path: Path) -> None:
    copy_folder("clients", tmp_path)
    held = held_by_wheel(tmp_path / CLIENT, tmp_path)
    assert {name for name in held if ".dist-info/" not in name} == client_modules() != set()
    assert any(name.endswith("/LICENSE") for name in held)


def test_what_the_wheel_is_built_of_is_what_the_image_copies() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in (*PACKAGES, "clients"):
        assert f"COPY {name} {name}\n" in dockerfile
        assert f"!{name}" in let_in
