"""The progress of jobs as server-sent events: one at each change, until the job is done."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.admission.request_slots import RequestSlots
from service.api.schemas.resources import JobAnswer

LONGEST_S = 600.0  # of one stream; browsers reconnect by themselves
EVENT_EVERY_S = 0.25
QUIET_S = 15.0  # without an event, after which a comment keeps the connection alive
COME_BACK_MS = 2000
ENDED = "done"  # the id of a job's last event


class EventStream(StreamingResponse):
    """A response of events, which holds a slot while it is sent.

    The slot is taken when sending begins, since many requests may be admitted before; Overloaded is raised then.
    """

    def __init__(self, events: AsyncIterator[bytes], slots: RequestSlots) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would keep events until the end
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events while there is a slot."""
        with self._slots.taken():
            await super().__call__(scope, receive, send)


async def job_events(
    first: JobAnswer,
    look: Callable[[], Awaitable[JobAnswer | None]],
    is_over: Callable[[], bool] = lambda: False,
    longest_s: float = LONGEST_S,
    poll_s: float = EVENT_EVERY_S,
) -> AsyncIterator[bytes]:
    """Events `progress` with the job as JSON: the first state, each that differs from the one before, and the last.

    The last event has the id ENDED. A browser that reconnects sends it back, and is then told to stop.
    The stream ends with the state `done`, when the job is gone, after `longest_s` seconds, or once `is_over` says so;
    the next stream continues from the state of that moment.
    """
    yield f"retry: {COME_BACK_MS}\n{_event(first)}".encode()
    last, quiet = first, 0
    for _ in range(math.ceil(longest_s / poll_s)):
        if last.state == "done" or is_over():
            return
        await asyncio.sleep(poll_s)
        now = await look()
        if now is None:  # done, and already forgotten
            return
        if now != last:
            last, quiet = now, 0
            yield _event(now).encode()
        elif (quiet := quiet + 1) * poll_s >= QUIET_S:
            quiet = 0
            yield b": still at it\n\n"


def _event(job: JobAnswer) -> str:
    last = f"id: {ENDED}\n" if job.state == "done" else ""
    return f"{last}event: progress\ndata: {json.dumps(job.model_dump(mode='json'))}\n\n"
