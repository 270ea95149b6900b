"""Conditions that every test relies on: few threads, no settings from outside, a loud word about what is left out."""

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from service.this_machine import held_port
from tests.support.cli_runner import Regard
from tests.support.redis_server import RedisServer

TEST_DATA = "REGARD_TEST_DATA"
REQUIRE_ALL = os.environ.get("REGARD_REQUIRE_ALL") == "1"
# What steers tests; every other REGARD_ variable is a setting of somebody's own service.
STEERING = (
    TEST_DATA,
    "REGARD_REQUIRE_ALL",
    "REGARD_KILL",
    "REGARD_LOAD",
    "REGARD_MUTATIONS",
    "REGARD_CASES",
    "REGARD_RECIPES",
)

# What cannot be asked of a machine: a device, what must be built, and what it keeps from whoever runs the tests.
BEYOND = ("gpu", "detectron2", "kernel")
PROGRAMS = {"redis": ["redis-server"], "browser": ["chromium"], "node": ["node", "npm"], "curl": ["curl"]}

for name in [name for name in os.environ if name.startswith("REGARD_") and not name.startswith(STEERING)]:
    del os.environ[name]
# Test processes share few cores; before torch or faiss is imported here or in a child, which read it once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What a shell starts in the background ignores interruptions, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Objects by the million live to the end; looking for cycles among them would take every process ten seconds more.
atexit.register(gc.freeze)

PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("here", **PATIENT)
hypothesis.settings.register_profile("ci", **PATIENT, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if REQUIRE_ALL else "here")


def missing(need: str) -> str | None:
    """Why tests with the marker `need` cannot run here; None when they can."""
    if need == "realdata":
        folder = os.environ.get(TEST_DATA)
        return None if folder and Path(folder).is_dir() else f"{TEST_DATA} names no folder of photographs"
    if need == "browser" and not importlib.util.find_spec("playwright"):
        return "playwright is not installed"
    if need == "detectron2":
        return None if importlib.util.find_spec("detectron2") else "detectron2 is not installed"
    if need == "gpu":
        import torch  # noqa: PLC0415 - seconds, and few runs need it here

        return None if torch.cuda.is_available() else "no CUDA device"
    absent = [program for program in PROGRAMS.get(need, ()) if shutil.which(program) is None]
    return f"{absent[0]} is not installed" if absent else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a test that may take longer than others come first, so that no process is left with one at the end."""
    longest: dict[Path, float] = defaultdict(float)
    for item in items:
        if (timeout := item.get_closest_marker("timeout")) is not None:
            longest[item.path] = max(longest[item.path], timeout.args[0])
    items.sort(key=lambda item: -longest[item.path])


def pytest_collection_finish() -> None:
    """Modules and tests are there to stay: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here, with its reason."""
    for need in (*PROGRAMS, "realdata", "gpu", "detectron2"):
        if item.get_closest_marker(need) and (reason := missing(need)):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is required a skip is a failure, but of what is BEYOND."""
    report = yield
    beyond = any(item.get_closest_marker(need) for need in BEYOND)
    excused = beyond or hasattr(report, "wasxfail")
    if REQUIRE_ALL and report.skipped and not excused:
        report.outcome = "failed"
        report.longrepr = f"REGARD_REQUIRE_ALL=1, but this was skipped: {skip_reason(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line in capitals for every reason why tests were left out."""
    reasons = Counter(skip_reason(report) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(
            f"NOT TESTED HERE: {count} TEST{'S' if count > 1 else ''}: {reason.upper()}", red=True, bold=True
        )


def skip_reason(report: pytest.TestReport) -> str:
    """The words given to the skip."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real photographs and captions; use it with the marker `realdata`."""
    if reason := missing("realdata"):
        pytest.skip(reason)
    return Path(os.environ[TEST_DATA])


@pytest.fixture(scope="session")
def parity_dir(data_dir: Path) -> Path:
    """The folder of scores that the authors' own code gave, beside the photographs."""
    folder = data_dir.parent / "parity"
    if not folder.is_dir():
        pytest.skip(f"no folder parity beside {TEST_DATA}")
    return folder


@pytest.fixture
def two_threads() -> Iterator[None]:
    """PyTorch's operators use two threads, which may do parts of one work in any order."""
    import torch  # noqa: PLC0415 - seconds, and few runs need it here

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A real redis-server that runs; `kill` and `start` it as the test wants."""
    if reason := missing("redis"):
        pytest.skip(reason)
    folder = tmp_path / "redis"
    folder.mkdir()
    with held_port() as port:
        server = RedisServer(folder, port)
        server.start()
        yield server
        server.kill()


@pytest.fixture(name="free_port")
def a_free_port() -> Iterator[int]:
    """A port on the loopback address at which nobody listens, unless the test does."""
    with held_port() as port:
        yield port


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Regard:
    """Runs the program in this process: exit status, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        status = 0
        from service.cli.main import main  # noqa: PLC0415 - many tests need no command

        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
        return status, *capsys.readouterr()

    return run
