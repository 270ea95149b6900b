"""Requests drawn from docs/openapi.json, sent to a real server: valid ones, and ones that break the schema.

python -m tests.support.api_cases --cases 10000 --seed 1 prints how often each route gave each status, as JSON. It ends
with 1 where an answer was a fault of the server, or one that the document does not list.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from service.api.openapi.headers import HEADERS
from tests.support.api_document import declared_responses
from tests.support.library import two_coloured
from tests.support.project_files import ROOT
from tests.support.running_server import running_server
from tests.support.web_app import png

DOCUMENT = ROOT / "docs" / "openapi.json"
DELIBERATE = (503, 507)
# What the server's outer layers answer to requests that reach no route, or not this one.
OUTSIDE = (404, 405, 431)
FILES_OF = {"/ingest": "images", "/search/image": "image"}
MOST_FINDINGS = 20
MOST_IN_A_ROUND = 20  # cases of a route and a kind
TIMEOUT_S = 120.0


@dataclass
class Known:
    """Ids of existing pictures and jobs, for use in requests."""

    images: Sequence[str]
    """The last one is deleted, and it alone."""
    jobs: Sequence[str]
    pictures: Sequence[bytes] = field(default_factory=lambda: [png(two_coloured("red", "blue")), b"\xff\xd8\xff", b""])

    @classmethod
    def of(cls, url: str) -> "Known":
        """Ingest a few pictures, wait for them, and delete one."""
        pairs = [("red", "green"), ("blue", "white"), ("black", "cyan")]
        files = [("images", (f"{left}.png", png(two_coloured(left, right)))) for left, right in pairs]
        with httpx.Client(base_url=url, timeout=TIMEOUT_S) as http:
            receipt = http.post("/ingest", files=files).json()
            while http.get(receipt["status_url"]).json()["state"] != "done":
                pass
            ids = [one["image_id"] for one in receipt["accepted"]]
            http.delete(f"/images/{ids[-1]}")
        return cls(ids, [receipt["job_id"]])


class CaseRun:
    """Sends cases to a server, and keeps unexpected answers."""

    def __init__(self, url: str, known: Known, document: Path = DOCUMENT) -> None:
        self._url, self._known = url, known
        self._schema = schemathesis.openapi.from_path(str(document))
        self._document = json.loads(document.read_text(encoding="utf-8"))
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.findings: dict[tuple[str, str], str] = {}

    def run(self, cases: int, seed: int) -> None:
        """Send at least this many cases, in rounds over all routes."""
        operations = [found.ok() for found in self._schema.get_all_operations() if isinstance(found, Ok)]
        in_a_round = min(MOST_IN_A_ROUND, max(1, round(cases / len(operations) / 2)))
        turn = 0
        while self.statuses.total() < cases:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                for operation in operations:
                    self._send_cases(operation, mode, in_a_round, seed * 1000 + turn)
            turn += 1

    def _send_cases(self, operation: Any, mode: GenerationMode, count: int, seed: int) -> None:
        can_be_wrong = operation.body or any(one.location != "path" for one in operation.iter_parameters())
        if mode is GenerationMode.NEGATIVE and not can_be_wrong:  # any text is a part of a path
            mode = GenerationMode.POSITIVE

        @hypothesis.seed(seed)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), draw=st.randoms(use_true_random=False))
        def send(case: Case[Any], draw: Any) -> None:
            self._speak_of_what_is_there(case, draw)
            self.send(case)

        send()

    def _speak_of_what_is_there(self, case: Case[Any], draw: Any) -> None:
        """Let half of the requests name existing pictures and jobs, and send real picture files."""
        images = self._known.images[-1:] if case.method.upper() == "DELETE" else self._known.images
        for name, values in (("image_id", images), ("job_id", self._known.jobs), ("name", ["fake"])):
            if name in case.path_parameters and draw.random() < 0.5:
                case.path_parameters[name] = draw.choice(values)
        if isinstance(case.body, dict) and case.path in FILES_OF and draw.random() < 0.5:
            picture = draw.choice(self._known.pictures)
            case.body[FILES_OF[case.path]] = [picture] if case.path == "/ingest" else picture
            case.body.pop("image_id", None)

    def send(self, case: Case[Any]) -> int:
        """Send one case. Returns the status, 0 without an answer."""
        name = f"{case.method.upper()} {case.path}"
        try:
            answer = case.call(base_url=self._url, timeout=TIMEOUT_S)
        except requests.RequestException as fault:
            self._find(name, f"no answer: {type(fault).__name__}: {str(fault)[:200]}", case)
            return 0
        self.statuses[name, answer.status_code] += 1
        if (wrong := self._wrong(case, answer)) is not None:
            self._find(name, wrong, case)
        return int(answer.status_code)

    def _find(self, name: str, wrong: str, case: Case[Any]) -> None:
        """Record a fault, once per route."""
        self.findings.setdefault((name, wrong[:60]), f"{wrong}\n{case.as_curl_command()[:2000]}")

    def _wrong(self, case: Case[Any], answer: Any) -> str | None:
        """A description of the fault in an answer."""
        status = answer.status_code
        if status >= 500 and status not in DELIBERATE:
            return f"{status}: {answer.text[:500]}"
        told = declared_responses(case.operation.definition.raw, self._document)
        if str(status) not in told and status not in OUTSIDE:
            return f"{status} is not told of: {answer.text[:500]}"
        kind = answer.headers.get("content-type", [""])[0]
        if status >= 400 and kind != "application/problem+json":
            return f"{status} is no problem document but {kind}"
        if status in DELIBERATE and case.path != "/readyz" and "retry-after" not in answer.headers:
            return f"{status} without Retry-After"
        declared = {name.lower() for name in told.get(str(status), {}).get("headers", {})} - {"retry-after"}
        if (sent := {name.lower() for name in HEADERS} & answer.headers.keys()) != declared:
            return f"{status} with the headers {sorted(sent)}, and not {sorted(declared)}"
        return None

    def report(self) -> dict[str, Any]:
        """The number of answers by route and status."""
        routes = sorted({name for name, _ in self.statuses})
        return {
            "cases": self.statuses.total(),
            "findings": len(self.findings),
            "statuses": {
                route: {status: count for (one, status), count in sorted(self.statuses.items()) if one == route}
                for route in routes
            },
        }


def main() -> None:
    """Run, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as url:
        run = CaseRun(url, Known.of(url))
        run.run(chosen.cases, chosen.seed)
    print(json.dumps({"seed": chosen.seed, **run.report()}, indent=1))
    for (route, _), words in list(run.findings.items())[:MOST_FINDINGS]:
        print(f"---- {route}\n{words}")
    if run.findings:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
