"""One command serves: the web side and a worker below it, without Redis, the way `make run` starts them."""

import os
import signal
from pathlib import Path

import pytest

from service.this_machine import children_of, is_running
from tests.e2e.pictures import painted
from tests.e2e.stack import Stack, small_stack, until
from tests.support import patient
from tests.support.mixed_folder import least_count, write_mixed_folder
from tests.support.project_files import ROOT

pytestmark = pytest.mark.timeout(2000)


def workers_of(parent: int) -> list[int]:
    """Ids of the workers among its children, not of the processes that read uploaded files."""
    return [
        child for child in children_of(parent) if b"worker" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    ]


def test_a_dead_worker_is_started_again_and_a_dead_server_leaves_none(tmp_path: Path) -> None:
    pictures = painted(8)
    with small_stack(tmp_path) as stack:
        stack.start("all")
        stack.wait_ready()
        (worker,) = workers_of(stack.pid("all"))
        receipt = stack.ingest(pictures)
        os.kill(worker, signal.SIGKILL)
        assert stack.wait_job(receipt)["done"] == len(pictures)
        others = lambda: next((one for one in workers_of(stack.pid("all")) if one != worker), None)  # noqa: E731
        successor = until(others, "no worker took its place")
        below = children_of(successor)
        stack.kill_alone("all")
        until(lambda: not any(map(is_running, [successor, *below])), "the worker outlived its parent")


def test_a_data_directory_that_goes_away_is_not_made_anew(tmp_path: Path) -> None:
    pictures = painted(3)
    with small_stack(tmp_path) as stack:
        stack.start("all", REGARD_WEB_PROCESSES="2")
        stack.wait_ready()
        stack.wait_job(stack.ingest(pictures))
        (worker,) = workers_of(stack.pid("all"))
        away = stack.data.with_name("away")
        stack.data.rename(away)
        os.kill(worker, signal.SIGKILL)
        until(lambda: "is not there any more" in stack.said("all"), "no worker missed it")
        for path in ("/readyz", "/images"):
            assert patient.get(f"{stack.url}{path}").status_code == 503
        assert not stack.data.exists()
        away.rename(stack.data)
        stack.wait_ready()
        assert len(stack.images()) == 3
        assert stack.wait_job(stack.ingest(painted(5)[3:]))["done"] == 2
        stack.stop_with_all("all", signal.SIGTERM)


def test_who_follows_a_job_does_not_keep_a_service_from_ending(tmp_path: Path) -> None:
    with small_stack(tmp_path) as stack:
        stack.start("api")  # without a worker the job waits
        until(lambda: stack.running("api") and stack.answers("/images"), "the api never answered")
        receipt = stack.ingest(painted(1))
        with stack.client.stream("GET", f"{receipt['status_url']}/events") as events:
            lines = events.iter_lines()
            assert next(lines).startswith("retry:")
            stack.stop("api")
            assert "event: progress" in list(lines)  # to the end, which was not cut off
        assert "Traceback" not in stack.said("api")


def test_make_run_accounts_for_every_file_of_a_folder_and_serves_it(tmp_path: Path) -> None:
    folder = tmp_path / "my photos, 50% of 'em"
    mixed = write_mixed_folder(folder, least_count() + 1, [write_painted(tmp_path)])
    with Stack(tmp_path / "stack") as stack:
        # READY= leaves out setting up: this environment is the one it would make.
        variables = [f"PHOTOS={folder}", f"PORT={stack.port}", f"DATA={stack.data}", "READY="]
        command = ["make", "--no-print-directory", "-C", str(ROOT), "run", *variables]
        stack.start(
            "all", command=command, MAKEFLAGS="", MAKELEVEL="0", XDG_STATE_HOME=str(tmp_path)
        )  # not a part of `make test`
        stack.wait_ready()
        until(lambda: "taken in" in stack.said("all"), "the folder was not taken in")
        stack.wait_searchable()
        table = {" ".join(line.split()) for line in stack.said("all").splitlines()}
        assert set(mixed.table_rows()) <= table
        assert {image["state"] for image in stack.images()} == {"ready"}
        assert len(stack.images()) == mixed.taken_in
        assert mixed.num_files == len([path for path in folder.rglob("*") if path.is_file()])
        assert len(stack.ranking("a red ball", k=3)) == 3


def write_painted(folder: Path) -> Path:
    """A file with a painted picture."""
    (picture,) = painted(1)
    path = folder / picture.name
    path.write_bytes(picture.content)
    return path
