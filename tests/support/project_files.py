"""The files of the project, for tests that read them."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TOOLS = {".venv", ".git", "__pycache__", "data", "runs", "photos", "build", ".hypothesis", "node_modules"}


@cache
def project_files() -> tuple[str, ...]:
    """Every file that git knows (outside a checkout: every file that no tool made), relative, with slashes."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [
            str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not TOOLS & set(path.relative_to(ROOT).parts)
        ]
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def python_files(*folders: str) -> tuple[str, ...]:
    """The Python files below the folders, tracked or not."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


@cache
def text_files() -> tuple[str, ...]:
    """The project's files that are text."""

    def is_text(name: str) -> bool:
        try:
            return "\0" not in (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return False

    return tuple(name for name in project_files() if is_text(name))
