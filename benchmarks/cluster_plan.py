"""A capacity plan for many pictures: every figure follows from measured ones by the arithmetic printed beside it.

`Machine` and `Plan` hold what is assumed and not measured: the size of a machine, of an original, and the bounds.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.views.shortlist import code_width
from service.cluster.routing.one_round_trip import local_candidates

SIZES = (10_000_000, 100_000_000, 1_000_000_000)
DAY_S = 86_400
INGESTION = json.loads((Path(__file__).parent / "results" / "speed" / "ingest.json").read_text(encoding="utf-8"))
INGESTED = next(round(row["pictures_per_second"], 1) for row in INGESTION["rows"] if row["what"] == "over HTTP")
INGESTED_CORES = INGESTION["hardware"]["cores"]
RANKED_BYTES = 59  # of a candidate: its id, inner product and time, pickled
SCORE_BYTES = 26  # of its reranked score, with a reference to the id
ROW_BYTES = 8  # a row number in an index


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The assumed size of a node."""

    memory: float = 256e9
    memory_share: float = 0.6  # for shortlists; the rest is the page cache of records, and programs
    disk: float = 15e12
    disk_share: float = 0.8
    cores: int = 16
    network: float = 10e9 / 8  # bytes a second


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The requirements: what is stored, and how fast it must be searched."""

    machine: Machine = Machine()
    replicas: int = 2
    model: str = "bfan-equal"
    original: float = 2e6  # bytes, of a telephone's photograph; it is stored twice: as sent, and without metadata
    scan_ms: float = 50  # that stage one may take on one core
    candidates: int = 100
    code_bytes: int = 72  # of a vector in IVF-PQ: 64 of code, 8 of id
    ingest_days: float = 30


@dataclass(frozen=True)
class Row:
    """One line of the plan: its figure for each size, and how it is computed."""

    name: str
    arithmetic: str
    value: Callable[[float], str]


Figures = dict[str, Any]


def indexed_bytes(figures: Figures, plan: Plan) -> int:
    """Bytes that stage one keeps in memory of a picture: a code of one byte a number, and the row number."""
    return code_width(figures["views"][plan.model]["embed_dim"]) + ROW_BYTES


def record_bytes(figures: Figures, plan: Plan) -> int:
    """Bytes on disk of a searchable picture: regions, one model's record, embedding and code, catalog, thumbnail."""
    view, stored = figures["views"][plan.model], figures["stored"]
    searched = figures["region_record"] + view["record"] + view["embedding"] + indexed_bytes(figures, plan)
    return int(searched + stored["catalog.sqlite"] + stored["thumbnails"])


def shards_for_scan(pictures: float, figures: Figures, plan: Plan) -> int:
    """The number of shards that keeps stage one on one core within its bound."""
    return math.ceil(float(pictures * figures["stage_one"]["inverted_ns_per_row"] / (1e6 * plan.scan_ms)))


def shards_for_memory(pictures: float, bytes_each: float, machine: Machine) -> int:
    """The number of shards, each alone on a machine, that holds all codes in memory."""
    return math.ceil(pictures * bytes_each / (machine.memory * machine.memory_share))


def num_shards(pictures: float, figures: Figures, plan: Plan) -> int:
    """The number of shards that meets both bounds."""
    memory = shards_for_memory(pictures, indexed_bytes(figures, plan), plan.machine)
    return max(memory, shards_for_scan(pictures, figures, plan))


def nodes(pictures: float, figures: Figures, plan: Plan, originals: bool) -> dict[str, int]:
    """The number of machines that each resource alone requires, for all replicas."""
    machine, copies = plan.machine, plan.replicas
    disk = record_bytes(figures, plan) + (2 * plan.original if originals else 0)
    return {
        "memory": copies * shards_for_memory(pictures, indexed_bytes(figures, plan), machine),
        "disk": math.ceil(copies * pictures * disk / (machine.disk * machine.disk_share)),
        "cores": math.ceil(copies * shards_for_scan(pictures, figures, plan) / machine.cores),
    }


def network_bytes(shards: int, figures: Figures, plan: Plan) -> float:
    """Bytes that a sentence moves between router and shards.

    Not counted are the catalog's records of each shard's best pictures, a few hundred bytes each, and the second
    request, which one search in a hundred makes.
    """
    sent, share = figures["query_bytes"]["sentence"], local_candidates(plan.candidates, shards)
    return float(shards * (sent + plan.candidates * RANKED_BYTES + share * SCORE_BYTES))


def search_ms(pictures: float, figures: Figures, plan: Plan) -> tuple[float, float]:
    """Milliseconds of one core of one shard: stage one, and its part of reranking."""
    shards = num_shards(pictures, figures, plan)
    scan = pictures / shards * figures["stage_one"]["inverted_ns_per_row"] / 1e6
    return scan, local_candidates(plan.candidates, shards) * figures["us_per_pair"][plan.model] / 1000


def queries_a_second(pictures: float, figures: Figures, plan: Plan) -> float:
    """Queries a second that half of the cores' time answers, each shard alone on a machine."""
    return plan.replicas * plan.machine.cores * 0.5 * 1000 / sum(search_ms(pictures, figures, plan))


def amount(count: float, unit: str = "B") -> str:
    """A number of bytes or other units with an SI prefix."""
    thousands = 0
    while float(f"{count:.3g}") >= 1000:
        count, thousands = count / 1000, thousands + 1
    return f"{count:.3g} {['', 'k', 'M', 'G', 'T', 'P'][thousands]}{unit}".strip()


def plan_rows(figures: Figures, plan: Plan) -> list[Row]:
    """The plan, line by line."""
    machine = plan.machine
    indexed, record = indexed_bytes(figures, plan), record_bytes(figures, plan)
    scan, pair = figures["stage_one"]["inverted_ns_per_row"], figures["us_per_pair"][plan.model]
    copies, days = plan.replicas, plan.ingest_days
    cores_needed = INGESTED_CORES / INGESTED / DAY_S

    def of_nodes(resource: str, originals: bool = True) -> Callable[[float], str]:
        return lambda pictures: str(nodes(pictures, figures, plan, originals)[resource])

    def shards(pictures: float) -> int:
        return num_shards(pictures, figures, plan)

    sent = figures["query_bytes"]["sentence"]
    return [
        Row(
            "codes of stage one in memory",
            f"N x ({indexed - ROW_BYTES} + {ROW_BYTES}) B",
            lambda n: amount(n * indexed),
        ),
        Row(
            "shards by memory",
            f"over {amount(machine.memory * machine.memory_share)}",
            lambda n: str(shards_for_memory(n, indexed, machine)),
        ),
        Row("shards by time", f"N x {scan} ns / {plan.scan_ms:g} ms", lambda n: str(shards_for_scan(n, figures, plan))),
        Row("shards", "the larger", lambda n: str(shards(n))),
        Row("pictures a shard", "N / shards", lambda n: amount(n / shards(n), "")),
        Row(
            "stage one, one core", f"pictures a shard x {scan} ns", lambda n: f"{search_ms(n, figures, plan)[0]:.1f} ms"
        ),
        Row(
            "reranking, a shard's part",
            f"likely share of {plan.candidates} x {pair} us",
            lambda n: f"{search_ms(n, figures, plan)[1]:.3f} ms",
        ),
        Row(
            "queries a second",
            f"{copies} x {machine.cores} cores x 50 % / time",
            lambda n: f"{queries_a_second(n, figures, plan):.0f}",
        ),
        Row("for searching on disk, all copies", f"{copies} x N x {record} B", lambda n: amount(copies * n * record)),
        Row(
            "originals on disk, all copies",
            f"{copies} x N x 2 x {amount(plan.original)}",
            lambda n: amount(copies * n * 2 * plan.original),
        ),
        Row("machines by memory", f"{copies} x shards by memory", of_nodes("memory")),
        Row("machines by cores", f"{copies} x shards by time / {machine.cores}", of_nodes("cores")),
        Row("machines by disk", f"over {amount(machine.disk * machine.disk_share)}", of_nodes("disk")),
        Row("the same without originals", "originals in an object store", of_nodes("disk", originals=False)),
        Row(
            "network a query",
            f"shards x ({sent} + {plan.candidates} x {RANKED_BYTES} + likely share x {SCORE_BYTES} B)",
            lambda n: amount(network_bytes(shards(n), figures, plan)),
        ),
        Row(
            "instead of moving records",
            f"{plan.candidates} x {figures['views'][plan.model]['record']} B",
            lambda n: amount(plan.candidates * figures["views"][plan.model]["record"]),
        ),
        Row(
            f"cores to ingest in {days:g} days",
            f"N / ({INGESTED} / {INGESTED_CORES} a second and core)",
            lambda n: f"{n * cores_needed / days:.0f}",
        ),
        Row(
            "moved to a new shard",
            f"1 / (shards + 1) of the searched and of the originals, {amount(machine.network, 'B/s')}",
            lambda n: f"{n / (shards(n) + 1) * (record + 2 * plan.original) / machine.network / 3600:.1f} h",
        ),
        Row("IVF-PQ: memory", f"N x {plan.code_bytes} B", lambda n: amount(n * plan.code_bytes)),
        Row(
            "IVF-PQ: shards by memory",
            f"over {amount(machine.memory * machine.memory_share)}",
            lambda n: str(shards_for_memory(n, plan.code_bytes, machine)),
        ),
        Row(
            "int8 records: saved on disk",
            f"{copies} x N x ({figures['region_record']} + {figures['views'][plan.model]['record']}) / 2 B",
            lambda n: amount(copies * n * (figures["region_record"] + figures["views"][plan.model]["record"]) / 2),
        ),
    ]


def markdown(rows: Sequence[Row]) -> str:
    """The plan as a table of Markdown."""
    heads = [f"{size // 1_000_000} million" for size in SIZES]
    lines = [f"| | {' | '.join(heads)} | arithmetic |", "|---" * (len(SIZES) + 2) + "|"]
    lines += [f"| {row.name} | {' | '.join(row.value(size) for size in SIZES)} | {row.arithmetic} |" for row in rows]
    return "\n".join(lines) + "\n"


def first_limits(figures: Figures, plan: Plan) -> dict[str, float]:
    """The number of pictures at which one machine reaches each of its limits."""
    machine = plan.machine
    searched = record_bytes(figures, plan)
    disk = machine.disk * machine.disk_share
    ingested = INGESTED / INGESTED_CORES * machine.cores * DAY_S * plan.ingest_days
    return {
        "disk, with originals": disk / (searched + 2 * plan.original),
        f"stage one on one core within {plan.scan_ms:g} ms": 1e6
        * plan.scan_ms
        / figures["stage_one"]["inverted_ns_per_row"],
        "codes in memory": machine.memory * machine.memory_share / indexed_bytes(figures, plan),
        "disk, without originals": disk / searched,
        f"ingested in {plan.ingest_days:g} days": ingested,
    }
