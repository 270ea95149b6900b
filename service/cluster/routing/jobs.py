"""The state of jobs whose pictures are in several shards."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from index.catalog.ingestion.jobs import JobKey, job_key
from index.records import JobState, JobStatus
from service.cluster.messages import ShardLost
from service.cluster.placement import Placement
from service.cluster.routing.fan_out import READ_DEADLINE_S, FanOut, every_shard
from service.cluster.shards.lists import ShardLists


class ClusterJobs:
    """Merges the parts of jobs that shards have."""

    def __init__(self, fan_out: FanOut, placement: Callable[[], Placement]) -> None:
        self._fan_out, self._placement = fan_out, placement

    def job(self, job_id: str) -> JobStatus | None:
        """The job; `done` once it is done in every shard. Raises ShardLost where one does not answer."""
        shards = range(self._placement().num_shards)
        by_shard = self._fan_out.ask_every(ShardLists.job, dict.fromkeys(shards, (job_id,)), READ_DEADLINE_S)
        if silent := [shard for shard, parts in by_shard.items() if not parts]:
            raise ShardLost(f"Shard {silent[0]} does not answer; try again shortly.")
        # Of each shard's replicas, the one furthest behind counts: any of them may answer the next search.
        parts = [
            min(known, key=lambda part: part.state == "done") for known in map(known_parts, by_shard.values()) if known
        ]
        return merged_job(parts) if parts else None

    def jobs(self, after: JobKey | None, limit: int) -> list[JobStatus]:
        """Jobs after a place in their list, the latest first."""
        by_id: dict[str, list[JobStatus]] = defaultdict(list)
        for part in every_shard(self._fan_out, self._placement().num_shards, ShardLists.jobs, after, limit):
            for job in part:
                by_id[job.job_id].append(job)
        return sorted(map(merged_job, by_id.values()), key=job_key)[:limit]


def known_parts(replicas: Iterable[JobStatus | None]) -> list[JobStatus]:
    """The parts of a job that replicas report, without None of those that do not know it."""
    return [part for part in replicas if part is not None]


def merged_job(parts: Sequence[JobStatus]) -> JobStatus:
    """One job merged from its parts in shards. Slots are 0, since they have no meaning outside a shard."""
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
