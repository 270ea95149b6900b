"""Several web processes answer on one port, count together, and come and go without a request lost at rest."""

import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from service.processes.web_processes import BESIDE
from service.this_machine import children_of, is_running
from tests.e2e.pictures import painted
from tests.e2e.stack import Stack, small_stack, until
from tests.support import patient

pytestmark = pytest.mark.timeout(600)


def started(folder: Path) -> Stack:
    """A service of two web processes and a worker, with small models."""
    return small_stack(folder, REGARD_WEB_PROCESSES="2")


def second_of(stack: Stack, times: int = 1) -> int:
    """The process beside the first one, once it answers for the given time."""
    until(lambda: stack.said("all").count(BESIDE) == times, "no second process answered")
    (second,) = (
        child
        for child in children_of(stack.pid("all"))
        if b"--beside" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    )
    return second


def ask_anew(stack: Stack, times: int) -> None:
    """Requests that each make a connection of their own, all of them answered."""
    for _ in range(times):
        assert patient.get(f"{stack.url}/livez").status_code == 200


def num_found(stack: Stack) -> int:
    """The number of pictures that one of them finds."""
    answer = httpx.post(f"{stack.url}/search/text", json={"query": "a red ball", "k": 10}, timeout=60)
    return len(answer.raise_for_status().json()["results"])


def counted(stack: Stack) -> int:
    """The number of such requests that the metrics know of."""
    text = patient.get(f"{stack.url}/metrics").text
    found = re.search(r'^regard_requests_total\{route="/livez",status="200"\} (\S+)$', text, re.MULTILINE)
    assert text.count("# TYPE regard_requests_total counter") == 1
    return 0 if found is None else int(float(found[1]))


def test_both_answer_count_together_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path) as stack:
        stack.start("all")
        stack.wait_ready()
        second = second_of(stack)
        before = counted(stack)
        ask_anew(stack, 40)
        assert counted(stack) == before + 40
        (folder,) = stack.elsewhere.glob("regard-metrics-*")
        assert {path.name for path in folder.glob("counter_*.db")} == {
            f"counter_{process}.db" for process in (stack.pid("all"), second)
        }, "one of them answered nothing"

        os.kill(second, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{second}").exists(), "a killed process was not missed")  # it listens until then
        ask_anew(stack, 20)  # its share goes to the first one
        assert second_of(stack, times=2) != second
        ask_anew(stack, 20)
        assert counted(stack) == before + 80

        receipt = stack.ingest(painted(4))
        assert stack.wait_job(receipt)["done"] == 4
        assert [num_found(stack) for _ in range(10)] == [4] * 10  # whoever is asked
        stack.stop("all")
        assert "next in" not in stack.said("all").rpartition("ended with -9; next in")[2]
        assert not folder.exists()


def test_none_outlives_the_first_one_and_the_port_is_free_again(tmp_path: Path) -> None:
    with started(tmp_path) as stack:
        stack.start("all")
        stack.wait_ready()
        second = second_of(stack)
        stack.kill_alone("all")
        until(lambda: not is_running(second), "a web process outlived the one that started it")
        stack.start("all")
        stack.wait_ready()
        second_of(stack)
        stack.stop_with_all("all", signal.SIGINT)
