"""A service as its users have it: real processes on a data directory, spoken to over HTTP, killed at will."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from service.this_machine import held_port, is_running, processes_under
from tests.e2e.pictures import Photo
from tests.support.small_services import small_service

T = TypeVar("T")
REGARD = str(Path(sys.executable).with_name("regard"))
PATIENCE_S = 900.0  # no measure of speed: a machine that is busy otherwise takes its time
PROGRAMS = {
    "all": (REGARD, "serve", "--role", "all"),
    "api": (REGARD, "serve", "--role", "api"),
    "worker": (REGARD, "serve", "--role", "worker"),
}


def until(ask: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """The first answer that is neither None nor False; AssertionError when patience ends."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"waited {patience_s:g} s in vain: {what}")


class Stack:
    """Some processes of one service in `folder`; nothing of the caller's environment reaches their settings."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are REGARD_ variables for every process; nothing starts before `start`."""
        self.folder = folder
        self.data = folder / "data"
        self._own = contextlib.ExitStack()
        self.port = self._own.enter_context(held_port())
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=120.0)
        self._settings = {
            "REGARD_DATA_DIR": str(self.data),
            "REGARD_PORT": str(self.port),
            **(settings or {}),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # Where a program might leave things unasked: each process works, and has its home, in an empty folder.
        self.elsewhere = folder / "elsewhere"
        for place in (folder / "logs", self.elsewhere):
            place.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        """Return the running stack."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything; after a failure, show what the processes wrote."""
        self.client.close()
        self.kill(*list(self._processes))
        self._own.close()
        if error is not None:
            for log in sorted((self.folder / "logs").iterdir()):
                print(f"---- {log.name}\n{log.read_text(errors='replace')[-4000:]}")

    def environment(self) -> dict[str, str]:
        """The variables a process gets."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
        places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(self.elsewhere))
        return {**outside, **places, **self._settings}

    def start(self, *roles: str, command: Sequence[str] | None = None, **more: str) -> None:
        """Start roles (by `command` where given, with further variables)."""
        for role in roles:
            number = len(list((self.folder / "logs").iterdir()))
            with (self.folder / "logs" / f"{number:03}-{role}.log").open("wb") as log:
                self._processes[role] = subprocess.Popen(
                    list(command or PROGRAMS[role]),
                    env={**self.environment(), **more},
                    cwd=self.elsewhere,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def said(self, role: str) -> str:
        """The log of a role's last start so far."""
        log = max((self.folder / "logs").glob(f"*-{role}.log"))
        return log.read_text(encoding="utf-8", errors="replace")

    def pid(self, role: str) -> int:
        """The process id of a role."""
        return self._processes[role].pid

    def running(self, role: str) -> bool:
        """Whether the process of a role has not ended."""
        return self._processes[role].poll() is None

    def kill(self, *roles: str) -> None:
        """SIGKILL the processes of the roles with whatever they started, all before waiting for any."""
        ended = [self._processes.pop(role) for role in roles if role in self._processes]
        for process in ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in ended:
            process.wait()

    def kill_alone(self, role: str) -> None:
        """SIGKILL the process of a role, not what it started."""
        process = self._processes.pop(role)
        process.kill()
        process.wait()

    def stop(self, role: str, by: signal.Signals = signal.SIGTERM) -> None:
        """Ask politely; it must end by itself, well or by that very signal."""
        process = self._processes.pop(role)
        process.send_signal(by)
        status = process.wait(PATIENCE_S)
        assert status in {0, -by, 128 + by}, f"{role} ended with {status}"

    def stop_with_all(self, role: str, by: signal.Signals) -> None:
        """Ask politely; it must end by itself, and so must all that it started."""
        started = processes_under(self.pid(role))
        assert len(started) > 1
        self.stop(role, by)
        until(lambda: not any(map(is_running, started)), "something kept running")

    def wait_ready(self) -> None:
        """Until /readyz says so."""
        try:
            until(lambda: self.answers("/readyz"), "/readyz never said 200")
        except AssertionError as error:
            error.add_note(self.client.get("/readyz").text)
            raise

    def answers(self, path: str) -> bool:
        """Whether a GET of the path is answered 200; AssertionError where a process has ended."""
        for role, process in self._processes.items():
            assert process.poll() is None, f"{role} ended with {process.returncode}"
        with contextlib.suppress(httpx.TransportError):
            return self.client.get(path).status_code == 200
        return False

    # -- what a user does

    def get(self, path: str, **query: str | int) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ingest(self, photos: Sequence[Photo], captions: bool = False) -> dict[str, Any]:
        """The receipt of an upload that must be accepted."""
        answer = self.post_photos(photos, captions)
        assert answer.status_code == 202, answer.text
        receipt: dict[str, Any] = answer.json()
        return receipt

    def post_photos(self, photos: Sequence[Photo], captions: bool = False) -> httpx.Response:
        """POST /ingest, with the photographs' captions where asked for."""
        files = [("images", (photo.name, photo.content)) for photo in photos]
        manifest = {photo.name: {"captions": list(photo.captions)} for photo in photos}
        form = {"manifest": json.dumps(manifest)} if captions else None
        return self.client.post("/ingest", files=files, data=form)

    def wait_job(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """The job's status once it is done and what it brought can be searched."""

        def done() -> dict[str, Any] | None:
            status: dict[str, Any] = self.get(receipt["status_url"])
            assert status["state"] in {"queued", "running", "done"}
            return status if status["state"] == "done" else None

        status = until(done, f"job {receipt['job_id']} was never done")
        self.wait_searchable()
        return status

    def wait_searchable(self) -> None:
        """Until every model that a worker builds for has all that is ready: views follow the catalog a little later."""
        until(
            lambda: all(model["state"] != "building" for model in self.get("/models")["models"]),
            "the views were never complete",
        )

    def search(self, query: str, **fields: Any) -> dict[str, Any]:
        """The answer of a text search that must succeed."""
        answer = self.client.post("/search/text", json={"query": query, **fields})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def ranking(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """(image id, score) of the best k, best first."""
        return [(hit["image_id"], hit["score"]) for hit in self.search(query, k=k)["results"]]

    def images(self) -> list[dict[str, Any]]:
        """Every listed picture, page by page."""
        pages: list[dict[str, Any]] = []
        page = self.get("/images", limit=7)
        pages += page["images"]
        while page["next"] is not None:
            page = self.get("/images", limit=7, after=page["next"])
            pages += page["images"]
        return pages


def small_stack(folder: Path, **settings: str) -> Stack:
    """A stack that finds regions and searches with small untrained models: for what does not depend on the answers."""
    small = {f"REGARD_{name.upper()}": value for name, value in small_service(folder).items()}
    return Stack(folder / "stack", small | settings)
