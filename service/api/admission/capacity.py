"""The bounds on what requests may do at a time, and the threads that do it."""

from dataclasses import dataclass
from typing import Any, Self

from models.single_threads import usual_threads
from service.api.admission.accelerator import AcceleratorQueue
from service.api.admission.rate_limits import LocalRateLimiter, NoLimit, RateLimiter
from service.api.admission.request_slots import RequestSlots
from service.api.admission.request_threads import RequestThreads
from service.model_loading import device_of
from service.search.query import OpenQuery
from service.settings import Settings

LIGHT_COST = 640_000  # by the threads inside an operator: of two, five times a usual query by the default model


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The queues, threads and slots that the requests of a web process share."""

    accelerator: AcceleratorQueue
    threads: RequestThreads
    uploads: RequestSlots
    decoding: RequestSlots
    streams: RequestSlots
    archives: RequestSlots
    rate_limiter: RateLimiter

    @classmethod
    def from_settings(cls, settings: Settings, processes: int, is_remote: bool) -> Self:
        """The share of one of `processes` web processes; `is_remote`: beginning a search waits for other machines."""
        on_cpu = device_of(settings.device) == "cpu"  # whose work may be done in any thread; a GPU belongs to one
        # The more threads there are inside an operator, the sooner they pay.
        light_cost = LIGHT_COST // usual_threads() if on_cpu else None
        rate_limiter = open_rate_limiter(settings)  # first: nobody would end the threads where this fails
        return cls(
            accelerator=AcceleratorQueue(settings.queue_cost, light_cost=light_cost),
            threads=RequestThreads.started(processes, light_first=on_cpu and not is_remote),
            uploads=RequestSlots.of_uploads(settings.max_uploads),
            decoding=RequestSlots.of_decoding(settings.max_uploads),
            streams=RequestSlots.of_streams(),
            archives=RequestSlots.of_archives(),
            rate_limiter=rate_limiter,
        )

    def is_light(self, query: OpenQuery[Any], cost: int) -> bool:
        """Whether a query of this cost is answered in one of the light threads, from its beginning to its end.

        There are as many of these as processors (`REGARD_THREADS`), those of all web processes together: more would
        wait for each other at the interpreter's lock, and do less in all. To change threads on the way takes as long
        as a part of the query.
        """
        return self.accelerator.is_light(cost) and not query.gallery.scores_elsewhere


def open_rate_limiter(settings: Settings) -> RateLimiter:
    """The limiter that settings ask for."""
    if settings.rate_limit == 0:
        return NoLimit()
    if settings.redis_url is None:
        return LocalRateLimiter(settings.rate_limit, settings.rate_burst)
    from service.api.admission.redis_rate_limits import RedisRateLimiter  # noqa: PLC0415 - the client comes with it

    return RedisRateLimiter.connect(settings.redis_url, settings.rate_limit, settings.rate_burst)
