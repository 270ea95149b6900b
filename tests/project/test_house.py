"""The rules of the house: which way imports point, how long a file may be, what no file may name."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

from tests.support.project_files import ROOT, python_files, text_files

LONGEST = 400
# A file may be longer only with a reason here that says why it holds one thing.
LONGER: dict[str, str] = {}

# What each package may import besides itself and the standard library: anywhere, and inside functions only
# (programs' parts that a service never needs: a teacher, progress bars, training curves).
ANYWHERE = {
    "models": {"torch", "torchvision", "numpy", "safetensors", "nltk", "PIL", "jaxtyping"},
    "index": {"faiss", "numpy"},
    "service": {"models", "index", "torch", "numpy", "PIL", "pydantic", "pydantic_core", "pydantic_settings"}
    | {"fastapi", "starlette", "uvicorn", "python_multipart", "httpx", "redis"}
    | {"prometheus_client", "typer", "rich"},
}
IN_FUNCTIONS = {
    "models": {"onnxruntime", "rich", "tensorboard", "detectron2"},
    "index": set[str](),
    "service": {"torchvision"},
}

# Each outside thing has one door: the module, and the files (or folders) that may import it.
DOORS = {
    "fastapi": ("service/api/app.py", "service/routes/"),
    "starlette": ("service/api/app.py", "service/routes/"),
    "redis": ("service/api/cache.py", "service/worker/wakeups.py"),
    "uvicorn": ("service/cli/main.py", "service/serve.py"),
    "typer": ("service/cli/main.py", "service/commands/", "service/cli/settings_options.py"),
    "service.api.app": ("service/cli/main.py", "service/serve.py"),
    "service.api.routes": ("service/api/app.py", "service/routes/"),
    "service.cli.main": (),
    "detectron2": ("models/extractors/detectron2.py",),
}
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
READS_INERT = (
    "models/safe_load/restricted_pickle.py"  # other people's files, with every name in them looked up in a list
)


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name."""

    module: str
    line: int
    in_function: bool

    def reaches(self, module: str) -> bool:
        """Whether it is that module or inside it."""
        return self.module == module or self.module.startswith(module + ".")


def imports(source: str, path: str) -> Iterator[Import]:
    """Every import of a file, inside functions and `if TYPE_CHECKING` too; `from a import b` is a.b."""

    def walk(node: ast.AST, inside: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for name in child.names:
                    yield Import(name.name, child.lineno, inside)
            elif isinstance(child, ast.ImportFrom):
                above = PurePosixPath(path).parts[: -child.level] if child.level else ()
                base = ".".join([*above, *([child.module] if child.module else [])])
                for name in child.names:
                    yield Import(f"{base}.{name.name}", child.lineno, inside)
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from walk(child, inside or is_function)

    yield from walk(ast.parse(source), inside=False)


def wrong_arrows(source: str, path: str) -> list[str]:
    """What is wrong with the imports of the file `path` (relative, with slashes), in words."""
    package = PurePosixPath(path).parts[0]
    complaints = []
    for one in imports(source, path):
        top = one.module.partition(".")[0]
        where = f"{path}:{one.line} imports {one.module}"
        own = top == package or top in sys.stdlib_module_names
        if not own and top not in ANYWHERE[package]:
            if top not in IN_FUNCTIONS[package]:
                complaints.append(f"{where}, which {package} may not")
            elif not one.in_function:
                complaints.append(f"{where}, which {package} may do inside functions only")
        for module, doors in DOORS.items():
            if one.reaches(module) and path != module.replace(".", "/") + ".py" and not path.startswith(doors):
                complaints.append(f"{where}; only {', '.join(doors) or 'the program itself'} may")
        if top in UNPICKLERS and path != READS_INERT:
            complaints.append(f"{where}; weights and records are never unpickled")
    return complaints


@pytest.mark.parametrize("path", python_files("models", "index", "service"))
def test_imports_point_down(path: str) -> None:
    assert wrong_arrows((ROOT / path).read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/rerankers/scan.py", "import index"),
        ("models/rerankers/scan.py", "def f():\n    from service.search.engine import Search"),
        ("models/rerankers/scan.py", "from fastapi import FastAPI"),
        ("models/rerankers/scan.py", "import rich.progress"),
        ("index/slab.py", "import torch"),
        ("index/view.py", "if TYPE_CHECKING:\n    from models.batches import Rows"),
        ("index/view.py", "class A:\n    async def f(self):\n        import service"),
        ("index/view.py", "from ..models import rows"),
        ("service/search/engine.py", "import fastapi.responses"),
        ("service/search/engine.py", "from starlette import status"),
        ("service/search/engine.py", "from redis.asyncio import Redis"),
        ("service/search/engine.py", "from .routes import search"),
        ("service/search/engine.py", "from service import app"),
        ("service/worker/worker.py", "import onnxruntime"),
        ("models/extractors/faster_rcnn.py", "def f():\n    import detectron2"),
        ("models/extractors/detectron2.py", "import detectron2"),
        ("service/worker/worker.py", "import pickle"),
    ],
)
def test_a_wrong_arrow_is_found(path: str, source: str) -> None:
    assert len(wrong_arrows(source, path)) >= 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/training/trainer.py", "import json, torch.nn\ndef f():\n    import rich.progress"),
        ("index/view.py", "import sqlite3\nimport faiss\nfrom index.slab import Slab\nfrom . import slab"),
        ("service/api/routes/search.py", "from fastapi import APIRouter\nfrom service.search.engine import Search"),
        ("service/api/app.py", "from service.api.routes import search"),
        ("service/api/cache.py", "import redis.asyncio"),
        ("models/extractors/detectron2.py", "def f():\n    import detectron2.config"),
    ],
)
def test_a_right_arrow_is_left_alone(path: str, source: str) -> None:
    assert wrong_arrows(source, path) == []


@pytest.mark.parametrize("path", python_files("models", "index", "service", "benchmarks"))
def test_weights_are_read_without_running_what_they_say(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        flags = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert flags.get("allow_pickle", "False") == "False", f"{path}:{call.lineno} reads pickled arrays"
        if ast.unparse(call.func) == "torch.load":
            assert flags.get("weights_only") == "True", f"{path}:{call.lineno} unpickles"


@pytest.mark.parametrize("path", python_files("models", "index", "service", "benchmarks", "tests", "docs"))
def test_no_file_holds_two_things(path: str) -> None:
    length = len((ROOT / path).read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST or LONGER.get(path), f"{path} has {length} lines: split it, or give a reason"


def test_every_exception_from_the_length_is_still_needed() -> None:
    for path, reason in LONGER.items():
        assert reason
        assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) > LONGEST, f"{path} got shorter"


# Written in parts, so that this file does not name them itself.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "deb." + "debian", "docker" + ".io"]
HOSTS += ["ghcr" + ".io", "download.pytorch" + ".org", "hugging" + "face.co", "conda." + "anaconda"]
PLACES = [f"/{name}/" for name in ("work", "home", "root", "Users")]
FORBIDDEN = re.compile("|".join(map(re.escape, HOSTS)) + r"|(?<![\w.-])(" + "|".join(PLACES) + ")")


@pytest.mark.parametrize("path", text_files())
def test_no_file_names_a_registry_or_a_place_on_one_machine(path: str) -> None:
    assert [found.group() for found in FORBIDDEN.finditer((ROOT / path).read_text(encoding="utf-8"))] == []


def test_a_named_place_is_found() -> None:
    for text in (f"see {PLACES[0]}notes", f'"{PLACES[1]}me"', f"https://{HOSTS[0]}/simple"):
        assert FORBIDDEN.search(text)


PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)


def pins(lock: str) -> set[tuple[str, str, str]]:
    """The (name, version, condition) that a lock holds."""
    return set(PINNED.findall((ROOT / lock).read_text(encoding="utf-8")))


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_holds_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert lines
    assert len(lines) == len(pins(lock)), "every requirement is pinned by == and has hashes"


def test_developing_takes_nothing_away_from_running() -> None:
    assert pins("requirements.lock") <= pins("requirements-dev.lock")
    assert "uv" in {name for name, _, _ in pins("requirements-dev.lock")}
