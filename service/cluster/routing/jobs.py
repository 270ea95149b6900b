"""Jobs whose pictures lie in several shards, as one job each."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from index.records import JobState, JobStatus
from service.cluster.messages import ShardLost
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import READ_DEADLINE_S, FanOut, every_shard
from service.cluster.shards.lists import ShardLists


class ClusterJobs:
    """The state of jobs whose pictures lie in several shards."""

    def __init__(self, fan_out: FanOut, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._placement = fan_out, placement

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `done` once it is so in every shard. ShardLost where one does not answer."""
        shards = range(self._placement().num_shards)
        every = self._fan_out.ask_every(ShardLists.job, dict.fromkeys(shards, (job_id,)), READ_DEADLINE_S)
        if silent := [shard for shard, parts in every.items() if not parts]:
            raise ShardLost(f"Shard {silent[0]} does not answer; try again shortly.")
        # Of replicas, the one that is furthest behind: any of them may answer the next search.
        parts = [
            min(known, key=lambda part: part.state == "done") for known in map(known_parts, every.values()) if known
        ]
        return merged_job(parts) if parts else None

    def jobs(self, limit: int) -> list[JobStatus]:
        """The jobs that came last, the latest first."""
        by_id: dict[str, list[JobStatus]] = defaultdict(list)
        for part in every_shard(self._fan_out, self._placement().num_shards, ShardLists.jobs, limit):
            for job in part:
                by_id[job.job_id].append(job)
        latest = sorted(by_id.values(), key=lambda parts: (-parts[0].created_at, parts[0].job_id))[:limit]
        return [merged_job(parts) for parts in latest]


def known_parts(replicas: Iterable[JobStatus | None]) -> list[JobStatus]:
    """The parts of a job that replicas report, without those that have none of it."""
    return [part for part in replicas if part is not None]


def merged_job(parts: Sequence[JobStatus]) -> JobStatus:
    """One job of the parts that shards have of it; slots mean nothing beyond a shard, and are 0."""
    states: set[JobState] = {part.state for part in parts}
    failures = tuple(failure for part in parts for failure in part.failures)
    state: JobState = next(iter(states)) if len(states) == 1 else "running"
    return replace(
        parts[0],
        state=state,
        total=sum(part.total for part in parts),
        done=sum(part.done for part in parts),
        failed=sum(part.failed for part in parts),
        failures=failures,
        picture_slots=0,
        caption_slots=0,
    )
