"""Every shell example of the documents that speaks to a service, run as it stands there against a real server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.auth.api_keys import create_key
from service.auth.permissions import Permission
from tests.e2e.browser import send
from tests.support.documents import FENCE, programs_of
from tests.support.library import NOW, two_coloured
from tests.support.project_files import ROOT
from tests.support.running_server import running_server

pytestmark = pytest.mark.curl

DOCUMENTS = ["README.md", "docs/http.md", "docs/cli.md", "docs/page.md"]
WRITTEN_AT = "localhost:8000"
PROGRAM = re.compile(r"(?:\w+=\S+ )*(?:curl|regard|\.venv/bin/regard)\b")
# Of curl 7.81, that of Ubuntu 22.04, and older ones.
CURL_OPTIONS = {"-H", "-d", "-F", "-X", "-G", "-o", "--data-urlencode"}
# What no test can run as it stands, and what tries it instead.
NOT_RUN = {
    'regard search "a dog in the snow" --url nas.local:8000': "tests/service/cli/test_connection.py",
    "regard models": "after an address of another machine; tests/service/cli/test_connection.py",
    "regard ingest --watch ~/Pictures": "never ends; tests/service/cli/test_watch.py",
    "regard ingest --ray ~/Pictures": "needs nodes of Ray; tests/cluster/test_bulk_ingestion.py",
    "regard --install-completion": "writes to files of whoever runs it; tests/service/cli/test_connection.py",
    ".venv/bin/regard extract PHOTOS --detector detector --out features": "tests/service/cli/test_main.py",
    ".venv/bin/regard train bfan-equal-flickr8k --features features --captions captions.jsonl --out run": "hours",
    ".venv/bin/regard evaluate --model run/best --features features --captions captions.jsonl --split dev": "hours",
    "REGARD_DETECTOR=detector REGARD_MODELS=run/best .venv/bin/regard serve --data-dir own": "hours before",
    ".venv/bin/regard convert scan model_best.pth.tar --vocab f30k_precomp_vocab.json --out weights/scan": "a download",
    ".venv/bin/regard ingest-features f30k_precomp --split test --data-dir data": "a download",
    "REGARD_MODELS=weights/scan .venv/bin/regard serve --data-dir data": "a download",
}


def examples_of(document: str) -> list[str]:
    """The commands of a document that call curl or the program, without their comments, as they stand in it."""
    found = []
    for language, block in FENCE.findall((ROOT / document).read_text(encoding="utf-8")):
        if language == "sh":
            lines = block.replace("\\\n", "\\\0").splitlines()
            found += [line.replace("\0", "\n").strip() for line in lines if PROGRAM.match(line.strip())]
    return [re.sub(r" +# .*", "", example) for example in found]


EXAMPLES = [(document, example) for document in DOCUMENTS for example in examples_of(document)]


@dataclass(frozen=True)
class Shell:
    """A folder with what examples name, and the variables of a shell in which they reach the server of the test."""

    folder: Path
    environment: dict[str, str]

    def run(self, example: str) -> subprocess.CompletedProcess[str]:
        # A command after it keeps bash alive, which would give its place to a last one: `regard` looks for its shell.
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{example}\n:"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("shell")
    for name, colours in {"dog.jpg": ("red", "green"), "beach.jpg": ("blue", "yellow")}.items():
        for path in (folder / name, folder / "Pictures" / name):
            path.parent.mkdir(exist_ok=True)
            two_coloured(*colours, 64, 32).save(path)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / "docs").symlink_to(ROOT / "docs")
    with running_server(data) as address:
        drawing = ROOT / "docs/images/drawings/dog-on-grass.webp"
        about = {"captions": ["a dog in the snow"], "tags": {"year": 2024, "place": "Oslo"}, "taken_at": "2024-05-01"}
        send(address, drawing.name, drawing.read_bytes(), about)
        # Examples name the address where a service listens unless it is told otherwise; an HTTP error is one of curl.
        place = address.partition("//")[2]
        (folder / ".curlrc").write_text(f'fail-with-body\nsilent\nshow-error\nconnect-to = "{WRITTEN_AT}:{place}"\n')
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        key, _ = create_key("nobody asks for it", Permission.READ, NOW)
        own = {"HOME": str(folder), "CURL_HOME": str(folder), "PATH": programs, "REGARD_URL": address}
        yield Shell(folder, {**os.environ, **own, "REGARD_API_KEY": key, "COLUMNS": "120"})


@pytest.mark.parametrize(("document", "example"), [pair for pair in EXAMPLES if pair[1] not in NOT_RUN])
def test_an_example_does_what_it_says(shell: Shell, document: str, example: str) -> None:
    ended = shell.run(example)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_an_example_that_is_wrong_is_found(shell: Shell) -> None:
    for wrong in (f"curl http://{WRITTEN_AT}/nothing", "regard info 123", "regard serch x", "curl --jsn x"):
        assert shell.run(wrong).returncode != 0


def test_what_is_not_run_stands_in_a_document() -> None:
    assert set(NOT_RUN) <= {example for _, example in EXAMPLES}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_options_of_curl_are_those_of_ubuntu_22(document: str) -> None:
    calls = programs_of((ROOT / document).read_text(encoding="utf-8"), "curl")
    assert {word for words in calls for word in words if word.startswith("-")} <= CURL_OPTIONS
