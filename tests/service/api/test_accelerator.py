"""The accelerator's queue: order, bounds, hang-ups, faults and the end."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from service.api.admission.accelerator import AcceleratorQueue, Admission
from service.errors import NotReady, Overloaded
from service.search.scoring.joint_work import JointWork
from tests.support.busy_accelerator import PATIENCE_S, busy


@pytest.fixture(params=[None, 50], ids=["a GPU", "a processor"])
def queue(request: pytest.FixtureRequest) -> Iterator[AcceleratorQueue]:
    queue = AcceleratorQueue(max_cost=100, light_cost=request.param)
    queue.start()
    yield queue
    queue.close()


def test_everything_runs_on_one_thread_in_the_order_it_came(queue: AcceleratorQueue) -> None:
    ran: list[int] = []
    threads: set[int] = set()

    def work(number: int) -> int:
        ran.append(number)
        threads.add(threading.get_ident())
        return number * 10

    async def ask() -> list[int]:
        return await asyncio.gather(*(queue.submit(1, partial(work, n)) for n in range(20)))

    assert asyncio.run(ask()) == [n * 10 for n in range(20)]
    assert ran == list(range(20))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_light_work_is_done_by_its_callers_side_by_side_and_other_work_by_the_queues_thread() -> None:
    queue = AcceleratorQueue(max_cost=100, light_cost=5)
    queue.start()
    with queue.admit(6) as admission:
        assert admission.run(threading.get_ident) != threading.get_ident()
    with queue.admit(5) as admission:
        assert admission.run(threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            admission.run(lambda: 1 // 0)
        assert queue.busy_s == 0.0
    at_once, threads = threading.Barrier(3), set[int]()

    def meet() -> None:
        at_once.wait(PATIENCE_S)
        threads.add(threading.get_ident())

    def ask(cost: int) -> None:
        with queue.admit(cost) as admission:
            admission.run(meet)

    callers = [threading.Thread(target=ask, args=(cost,)) for cost in (5, 5, 6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    light = {callers[0].ident, callers[1].ident}
    assert len(threads) == 3
    assert light < threads
    assert callers[2].ident not in threads
    queue.close()


def test_closing_waits_for_light_work_and_begins_no_more() -> None:
    queue = AcceleratorQueue(max_cost=100, light_cost=5)
    queue.start()
    running, go = threading.Event(), threading.Event()

    def wait() -> None:
        running.set()
        assert go.wait(PATIENCE_S)

    admission, late = queue.admit(5), queue.admit(5)
    caller = threading.Thread(target=admission.run, args=(wait,))
    caller.start()
    assert running.wait(PATIENCE_S)
    closing = threading.Thread(target=queue.close)
    closing.start()
    while queue.alive:
        time.sleep(0.001)
    with pytest.raises(NotReady):
        late.run(lambda: None)
    assert closing.is_alive()
    go.set()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    caller.join()


def test_a_caller_who_hangs_up_at_any_moment_gives_the_place_back(queue: AcceleratorQueue) -> None:
    def steps(admission: Admission) -> None:
        with suppress(CancelledError):
            while True:
                admission.run(lambda: None)

    for turn in range(100):
        admission = queue.admit(1)
        asking = threading.Thread(target=steps, args=(admission,))
        asking.start()
        time.sleep(turn * 0.00002)
        admission.close()
        asking.join()
        queue.enqueue(0, lambda: None).result(PATIENCE_S)
        assert queue.admitted_cost == 0


def test_a_gpu_never_does_two_things_at_once() -> None:
    queue = AcceleratorQueue(max_cost=100)
    queue.start()
    at_once, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.0002)
        with lock:
            at_once -= 1

    def ask() -> None:
        for turn in range(40):
            with queue.admit(1) as admission:
                admission.run(work)
            if turn % 4 == 0:
                queue.enqueue(0, work).result(PATIENCE_S)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert queue.admitted_cost == 0
    queue.close()


def test_more_admitted_cost_than_the_bound_is_refused_with_a_time_to_come_back(queue: AcceleratorQueue) -> None:
    with busy(queue):
        accepted = [queue.enqueue(50, lambda: "a"), queue.enqueue(50, lambda: "b")]
        with pytest.raises(Overloaded) as refused:
            queue.enqueue(1, lambda: "c")
        assert int(refused.value.headers["Retry-After"]) >= 1
        assert queue.admitted_cost == 100
    assert [future.result(10) for future in accepted] == ["a", "b"]
    assert queue.enqueue(1, lambda: "d").result(10) == "d"


def test_a_place_that_turns_out_dearer_than_there_is_room_for_is_refused_and_stays_what_it_was() -> None:
    queue = AcceleratorQueue(max_cost=100)
    with queue.admit(40), queue.admit(10) as other:
        other.becomes(60)
        assert queue.admitted_cost == 100
        other.becomes(5)
        with pytest.raises(Overloaded):
            other.becomes(61)
        assert queue.admitted_cost == 45
    with queue.admit(1) as alone:
        alone.becomes(10_000)
        assert queue.admitted_cost == 10_000
    assert queue.admitted_cost == 0


def test_work_dearer_than_the_whole_bound_still_runs_when_nothing_else_waits(queue: AcceleratorQueue) -> None:
    assert queue.enqueue(10_000, lambda: "ran").result(10) == "ran"


def test_a_caller_who_hung_up_costs_nothing(queue: AcceleratorQueue) -> None:
    ran: list[str] = []

    async def hang_up() -> None:
        task = asyncio.create_task(queue.submit(100, lambda: ran.append("dropped")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with busy(queue):
        asyncio.run(hang_up())
        assert queue.admitted_cost == 0
        kept = queue.enqueue(100, lambda: ran.append("kept"))
    kept.result(10)
    assert ran == ["kept"]


def test_a_fault_reaches_its_own_caller_only(queue: AcceleratorQueue) -> None:
    def fail() -> None:
        raise ZeroDivisionError("mine")

    async def ask() -> list[object]:
        works = [lambda: "before", fail, lambda: "after"]
        return await asyncio.gather(*(queue.submit(1, work) for work in works), return_exceptions=True)

    before, fault, after = asyncio.run(ask())
    assert (before, after) == ("before", "after")
    assert isinstance(fault, ZeroDivisionError)
    assert queue.alive


def test_closing_resolves_everything() -> None:
    queue = AcceleratorQueue(max_cost=100)
    queue.start()
    with busy(queue) as go:
        waiting = queue.enqueue(5, lambda: "never")
        closing = threading.Thread(target=queue.close)
        closing.start()
        with pytest.raises(NotReady):
            waiting.result(10)
        go.set()
        closing.join(10)
    assert not queue.alive
    with pytest.raises(NotReady):
        queue.enqueue(1, lambda: "late")


def test_the_time_to_come_back_follows_how_fast_work_goes() -> None:
    now = [0.0]
    queue = AcceleratorQueue(max_cost=10, clock=lambda: now[0])
    queue.start()

    def slow() -> None:
        now[0] += 50.0

    queue.enqueue(10, slow).result(10)  # 5 s a unit of cost, about a fifth of which is believed at once
    with busy(queue):
        queue.enqueue(10, lambda: None)
        with pytest.raises(Overloaded) as refused:
            queue.enqueue(1, lambda: None)
    queue.close()
    assert refused.value.headers["Retry-After"] == "11"
    assert "send the same request again in 11 s" in str(refused.value)


def test_work_whose_caller_hung_up_counts_as_long_as_it_runs(queue: AcceleratorQueue) -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    admission = queue.admit(60)
    running = threading.Thread(target=admission.run, args=(work,))
    running.start()
    assert begun.wait(PATIENCE_S)
    admission.close()
    assert queue.admitted_cost == 60
    with pytest.raises(Overloaded):
        queue.admit(50)
    go.set()
    running.join()
    queue.enqueue(0, lambda: None).result(PATIENCE_S)
    assert queue.admitted_cost == 0


def test_a_probe_goes_before_everything_that_waits_and_costs_nothing(queue: AcceleratorQueue) -> None:
    ran: list[str] = []
    with busy(queue):
        waiting = queue.enqueue(100, lambda: ran.append("waiting"))
        probes = [queue.probe(lambda: ran.append("probe")) for _ in range(5)]
        assert len(set(map(id, probes))) == 1
        assert queue.admitted_cost == 100
    waiting.result(PATIENCE_S)
    assert ran == ["probe", "waiting"]
    assert queue.probe(lambda: "again").result(PATIENCE_S) == "again"


def test_the_time_that_work_has_been_running_is_told() -> None:
    now = [0.0]
    queue = AcceleratorQueue(max_cost=10, clock=lambda: now[0])
    queue.start()
    assert queue.busy_s == 0.0
    with busy(queue):
        now[0] += 7.0
        assert queue.busy_s == 7.0
    queue.enqueue(0, lambda: None).result(PATIENCE_S)
    queue.close()
    assert queue.busy_s == 0.0


def joint(group: str, item: int, batches: list[list[int]], most: int = 3) -> JointWork[int, int]:
    """Work that tenfolds its item, notes with which others, and fails together with a negative one."""

    def together(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        if min(items) < 0:
            raise ZeroDivisionError("mine")
        return [10 * one for one in items]

    return JointWork(group=group, most=most, item=item, together=together)


def test_joint_work_that_waits_is_done_together_with_the_first_of_its_group(queue: AcceleratorQueue) -> None:
    batches: list[list[int]] = []
    with busy(queue):
        asked = [queue.enqueue(1, joint(group, n, batches)) for n, group in enumerate("abaabaab")]
        other = queue.enqueue(1, lambda: batches.append([]))
    assert [future.result(PATIENCE_S) for future in asked] == [10 * n for n in range(8)]
    other.result(PATIENCE_S)
    assert batches == [[0, 2, 3], [1, 4, 7], [5, 6], []]
    assert queue.admitted_cost == 0


def test_a_fault_of_joint_work_reaches_its_own_caller_only(queue: AcceleratorQueue) -> None:
    batches: list[list[int]] = []
    with busy(queue):
        asked = [queue.enqueue(1, joint("a", item, batches)) for item in (1, -1, 2)]
    assert [asked[0].result(PATIENCE_S), asked[2].result(PATIENCE_S)] == [10, 20]
    with pytest.raises(ZeroDivisionError):
        asked[1].result(PATIENCE_S)
    assert batches == [[1, -1, 2], [1], [-1], [2]]


def test_joint_work_goes_on_without_those_who_hung_up(queue: AcceleratorQueue) -> None:
    batches: list[list[int]] = []
    with busy(queue):
        asked = [queue.enqueue(1, joint("a", item, batches)) for item in (1, 2, 3)]
        assert asked[1].cancel()
    assert [asked[0].result(PATIENCE_S), asked[2].result(PATIENCE_S)] == [10, 30]
    queue.enqueue(0, lambda: None).result(PATIENCE_S)
    assert batches == [[1, 3]]
    assert queue.admitted_cost == 0


def test_the_time_of_joint_work_is_shared_by_cost() -> None:
    now = [0.0]
    queue = AcceleratorQueue(max_cost=100, clock=lambda: now[0])
    queue.start()

    def together(items: Sequence[int]) -> Sequence[int]:
        now[0] += 8.0
        return items

    admissions = [queue.admit(cost) for cost in (10, 30)]
    works = [JointWork(group="a", most=9, item=n, together=together) for n in (1, 2)]
    with ThreadPoolExecutor(2) as callers:
        with busy(queue):
            waiting = [callers.submit(one.run, work) for one, work in zip(admissions, works, strict=True)]
            while queue.num_waiting < len(works):
                time.sleep(0.001)
        assert [one.result(PATIENCE_S) for one in waiting] == [1, 2]
    queue.enqueue(0, lambda: None).result(PATIENCE_S)
    assert [one.seconds for one in admissions] == [2.0, 6.0]
    queue.close()


def test_who_is_refused_hears_how_long_costly_work_takes_whatever_cheap_work_took() -> None:
    queue = AcceleratorQueue(1000)
    for cost, seconds in [(1, 0.02)] * 20 + [(900, 0.9)]:
        with queue.admit(cost) as admission:
            admission.seconds = seconds
    with queue.admit(900), pytest.raises(Overloaded) as refused:
        queue.admit(900)
    assert refused.value.extra["retry_after"] == 1
