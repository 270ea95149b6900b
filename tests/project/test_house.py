"""The rules of the house: which package may import which, how long a file may be, what no file may name."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest

from tests.project.import_rules import ANYWHERE, ENTRANCES, EVERYTHING, IN_FUNCTIONS, ROOMS
from tests.support.project_files import ROOT, python_files, text_files

LONGEST = 400
# A file may be longer only with a reason here that says why it holds one thing.
LONGER: dict[str, str] = {}
MOST_LINES = 40  # of a function, without its parameters and docstring
LONGER_FUNCTIONS = {
    "models/kernels/triton_kernels.py": {"score_pairs_kernel": "Triton compiles one function"},
}
WRITTEN_BY_PROGRAMS = {"clients/python/regard_client/answers.py"}

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


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file below these folders."""
    for path in python_files(*folders):
        yield path, (ROOT / path).read_text(encoding="utf-8")


def room_of(module: str) -> str:
    """The package inside a top folder that a module belongs to, such as models.text."""
    return ".".join(module.split(".")[:2])


def rooms(top: str) -> set[str]:
    """Names of the packages and modules right below a top folder."""
    return {path.stem for path in (ROOT / top).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}


def allowed(room: str, module: str) -> bool:
    """Whether the room may import the module, which belongs to the same top folder."""
    top, _, name = room_of(module).partition(".")
    mine = room_of(module) == room or name not in rooms(top)  # what is no room is a name of the folder itself
    return mine or ROOMS[room] is EVERYTHING or name in ROOMS[room]


def forbidden_imports(source: str, path: str) -> list[str]:
    """The imports of the file `path` (relative, with slashes) that it may not have, in words."""
    package = PurePosixPath(path).parts[0]
    room = room_of(".".join(PurePosixPath(path).with_suffix("").parts))
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
        if top == package and room in ROOMS and not allowed(room, one.module):
            complaints.append(f"{where}, which is not among what {room} may import")
        for module, entrances in ENTRANCES.items():
            if one.reaches(module) and path != module.replace(".", "/") + ".py" and not path.startswith(entrances):
                complaints.append(f"{where}; only {', '.join(entrances)} may")
        if top in UNPICKLERS and path != READS_INERT:
            complaints.append(f"{where}; weights and records are never unpickled")
    return complaints


def test_imports_point_down() -> None:
    found = (forbidden_imports(source, path) for path, source in sources("models", "index", "service", "clients"))
    complaints = [complaint for some in found for complaint in some]
    assert complaints == [], "tests/project/import_rules.py lists what may import what"


def test_whole_services_are_started_where_make_test_looks_for_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (folders,) = re.findall(r"^SERVICES := \$\(if \$\(filter tests,\$\(TESTS\)\),([^,]+),", makefile, re.MULTILINE)
    marked = [path for path in python_files("tests") if "mark.e2e" in (ROOT / path).read_text(encoding="utf-8")]
    elsewhere = [path for path in marked if not path.startswith(tuple(f"{name}/" for name in folders.split()))]
    assert elsewhere == ["tests/project/test_house.py"]
    assert len(marked) > 5


def test_every_package_is_in_the_table() -> None:
    there = {f"{top}.{name}" for top in ("models", "index", "service") for name in rooms(top) - {"__init__"}}
    assert there == set(ROOMS), "list each package in ROOMS of tests/project/import_rules.py"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/rerankers/scan.py", "import index"),
        ("models/rerankers/scan.py", "def f():\n    from service.search.engine import SearchEngine"),
        ("models/rerankers/scan.py", "from fastapi import FastAPI"),
        ("models/rerankers/scan.py", "import rich.progress"),
        ("models/rerankers/scan.py", "from models.matching import matcher"),
        ("models/rerankers/scan.py", "from models import matching"),
        ("models/batches.py", "def f():\n    import models.text.vocabulary"),
        ("models/text/vocabulary.py", "from ..rerankers.base import Reranker"),
        ("models/evaluation/evaluate.py", "from models.training.trainer import Trainer"),
        ("models/training/trainer.py", "from models.bench import data"),
        ("models/extractors/grid.py", "if TYPE_CHECKING:\n    from models.datasets.captions import CaptionLine"),
        ("index/views/slab.py", "import torch"),
        ("index/views/view.py", "if TYPE_CHECKING:\n    from models.batches import Rows"),
        ("index/views/view.py", "class A:\n    async def f(self):\n        import service"),
        ("index/views/view.py", "from ...models import batches"),
        ("service/search/engine.py", "import fastapi.responses"),
        ("service/search/engine.py", "from starlette import status"),
        ("service/search/engine.py", "from redis.asyncio import Redis"),
        ("service/search/engine.py", "from ..api.routes import search"),
        ("service/search/engine.py", "from service.api import app"),
        ("service/search/engine.py", "from service.worker.worker import Worker"),
        ("service/storage/originals.py", "from service.search.results import RankedPicture"),
        ("service/api/routes/models.py", "from service.worker.wakeups import open_notifier"),
        ("service/search/engine.py", "def f():\n    import ray"),
        ("service/api/services.py", "from ray import serve"),
        ("service/api/services.py", "from service import cluster"),
        ("service/worker/worker.py", "def f():\n    import service.cluster"),
        ("service/cli/main.py", "import ray.data"),
        ("models/extractors/grid.py", "def f():\n    import ray"),
        ("index/views/slab.py", "def f():\n    import ray"),
        ("service/cluster/__init__.py", "from service.serve import run_api"),
        ("service/cluster/__init__.py", "from starlette import status"),
        ("service/errors.py", "from service.settings import Settings"),
        ("service/worker/worker.py", "import onnxruntime"),
        ("models/extractors/faster_rcnn/extractor.py", "def f():\n    import detectron2"),
        ("models/extractors/detectron2.py", "import detectron2"),
        ("service/worker/worker.py", "import pickle"),
        ("clients/python/regard_client/client.py", "from service.settings import Settings"),
        ("clients/python/regard_client/client.py", "def f():\n    import torch"),
    ],
)
def test_a_forbidden_import_is_found(path: str, source: str) -> None:
    assert len(forbidden_imports(source, path)) >= 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/training/trainer.py", "import json, torch.nn\ndef f():\n    import rich.progress"),
        ("models/training/trainer.py", "from models.evaluation.evaluate import evaluate"),
        ("models/rerankers/scan.py", "from models.rerankers.base import Reranker\nfrom models import batches"),
        ("index/views/view.py", "import sqlite3\nimport faiss\nfrom index.views.slab import Slab\nfrom . import slab"),
        (
            "service/api/routes/search.py",
            "from fastapi import APIRouter\nfrom service.search.engine import SearchEngine",
        ),
        ("service/api/app.py", "from service.api.routes import search"),
        ("service/api/redis_cache.py", "import redis.asyncio"),
        ("service/cli/main.py", "from service.serve import run_api\nfrom models.matching.matcher import Matcher"),
        ("models/extractors/detectron2.py", "def f():\n    import detectron2.config"),
        ("service/cluster/__init__.py", "import ray\nfrom ray import serve\nfrom service.worker.worker import Worker"),
        ("service/cluster/__init__.py", "from service.api.services import Services"),
        ("service/cli/main.py", "import service.cluster"),
    ],
)
def test_a_permitted_import_is_left_alone(path: str, source: str) -> None:
    assert forbidden_imports(source, path) == []


def files_imported_by(path: str) -> set[str]:
    """The files of models, index and service that a file imports, at any place in it."""
    found = set()
    for one in imports((ROOT / path).read_text(encoding="utf-8"), path):
        module = one.module
        while module and not (ROOT / (module.replace(".", "/") + ".py")).is_file():
            module = module.rpartition(".")[0]
        if module:
            found.add(module.replace(".", "/") + ".py")
    return found - {path}


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The nodes that can be reached from themselves."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*graph[start]]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph.get(node, ())
        return seen

    return [node for node in graph if node in reachable(node)]


def shortest_circle(graph: dict[str, set[str]]) -> str:
    """The fewest nodes in a circle, in the order of its edges; empty where there is none."""
    found: list[list[str]] = []
    for node in circles(graph):
        ways, seen = [[node]], {node}
        while ways and node not in graph.get(ways[0][-1], ()):
            way, *ways = ways
            further = sorted(graph.get(way[-1], set()) - seen)
            seen.update(further)
            ways += [[*way, each] for each in further]
        found += ways[:1]
    lengths_and_ways = sorted((len(way), way) for way in found)
    return " > ".join(lengths_and_ways[0][1]) if found else ""


def test_no_file_and_no_package_imports_itself_by_way_of_others() -> None:
    files = {path: files_imported_by(path) for path in python_files("models", "index", "service")}
    assert circles(files) == [], shortest_circle(files)
    packages: dict[str, set[str]] = {}
    for path, imported in files.items():
        room = room_of(path.removesuffix(".py").replace("/", "."))
        others = {room_of(other.removesuffix(".py").replace("/", ".")) for other in imported}
        packages.setdefault(room, set()).update(others - {room})
    assert circles(packages) == [], shortest_circle(packages)


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]


def test_the_shortest_circle_is_shown() -> None:
    assert shortest_circle({"a": {"b"}, "b": {"c", "x"}, "c": {"a", "d"}, "d": {"c"}, "x": set()}) == "c > d"
    assert shortest_circle({"a": {"b"}, "b": set()}) == ""


def unpickling(source: str) -> Iterator[str]:
    """The calls that would run what a file of weights or arrays says."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        flags = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        loads = ast.unparse(call.func) == "torch.load"
        if flags.get("allow_pickle", "False") != "False" or (loads and flags.get("weights_only") != "True"):
            yield ast.unparse(call)


def test_weights_are_read_without_running_what_they_say() -> None:
    read = sources("models", "index", "service", "benchmarks")
    assert [(path, call) for path, source in read for call in unpickling(source)] == []
    assert len(list(unpickling("torch.load(a)\nnp.load(b, allow_pickle=c)\ntorch.load(d, weights_only=True)"))) == 2


def test_no_file_holds_two_things() -> None:
    read = sources("models", "index", "service", "clients", "benchmarks", "tests", "docs")
    lengths_of_files = {path: len(source.splitlines()) for path, source in read if path not in WRITTEN_BY_PROGRAMS}
    too_long = {path: length for path, length in lengths_of_files.items() if length > LONGEST and path not in LONGER}
    assert too_long == {}, "split them, or give a reason"
    assert len(lengths_of_files) > 500


def lengths(source: str) -> Iterator[tuple[str, int]]:
    """The name of every function, and its lines without parameters and docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, (node.end_lineno or 0) - code[0].lineno + 1 if code else 0


def test_functions_are_short_and_every_exception_is_still_needed() -> None:
    read = sources("models", "index", "service", "clients")
    long = {path: {name for name, lines in lengths(source) if lines > MOST_LINES} for path, source in read}
    assert {path: names for path, names in long.items() if names} == {
        path: set(reasons) for path, reasons in LONGER_FUNCTIONS.items()
    }, f"functions have {MOST_LINES} lines at most: split the first, or take shorter ones out of LONGER_FUNCTIONS"


def test_a_long_function_is_found() -> None:
    source = 'def long(one,\n  two):\n  """Does\n  nothing."""\n' + "  pass\n" * 41
    assert list(lengths(source)) == [("long", 41)]


def test_every_exception_from_the_length_is_still_needed() -> None:
    for path, reason in LONGER.items():
        assert reason
        assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) > LONGEST, f"{path} got shorter"


# Written in parts, so that this file does not name them itself.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "registry." + "npmjs", "deb." + "debian", "docker" + ".io"]
HOSTS += ["ghcr" + ".io", "download.pytorch" + ".org", "hugging" + "face.co", "conda." + "anaconda"]
PLACES = [f"/{name}/" for name in ("work", "home", "root", "Users")]
FORBIDDEN = re.compile("|".join(map(re.escape, HOSTS)) + r"|(?<![\w.-])(" + "|".join(PLACES) + ")")


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in text_files()}
    assert [(path, found.group()) for path, text in texts.items() for found in FORBIDDEN.finditer(text)] == []
    assert len(texts) > 1000


def test_a_named_place_is_found() -> None:
    for text in (f"see {PLACES[0]}notes", f'"{PLACES[1]}me"', f"https://{HOSTS[0]}/simple"):
        assert FORBIDDEN.search(text)
