"""A cluster that does not exist: its size by arithmetic, its latency by simulation.

python -m benchmarks.cluster_simulation measure --data-dir DATA --pictures 64 --ray
    writes the figures of this machine into benchmarks/results/; DATA is a directory with that many pictures
python -m benchmarks.cluster_simulation plan
    what 10 million, 100 million and 1 000 million pictures need, each figure with its arithmetic
python -m benchmarks.cluster_simulation simulate --seed 1
    p50, p95 and p99 by the number of shards: in one and two round trips, with and without hedging
python -m benchmarks.cluster_simulation validate --measured FILE
    whether the simulation gives the p50 and p95 that were measured, within a fifth

FILE holds what `measure` writes of service times, taken in the shards during the same run, and `end_to_end_ms`,
`shards`, `round_trips` and `hedge` of that run.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cluster_figures, cluster_plan
from benchmarks.tail_latency import Cluster, Outcome, ServiceTimes, simulate

SHARDS = (1, 3, 10, 30, 100, 300)
QUERIES = 4000
AGREES_WITHIN = 0.2
COMPARED = ("p50", "p95")


def forms(args: argparse.Namespace) -> dict[str, Cluster]:
    """The clusters to compare, by their names in the table."""
    plain = Cluster(shards=1, hedge=False, rate=args.rate, stragglers=args.stragglers)
    return {
        "two round trips": plain,
        "two, hedged": replace(plain, hedge=True),
        "one, hedged": replace(plain, hedge=True, round_trips=1),
        "two, 2 % of replicas lost": replace(plain, lost=0.02),
        "two, hedged, 2 % lost": replace(plain, hedge=True, lost=0.02),
        "no replicas, 2 % lost": replace(plain, replicas=1, lost=0.02),
    }


def simulated_table(args: argparse.Namespace) -> str:
    """A Markdown table: p50 / p95 / p99 in milliseconds, with the share of partial answers."""
    times = ServiceTimes.from_json(json.loads(args.times.read_text(encoding="utf-8"))).for_rows(args.rows)
    compared = forms(args)
    lines = ["| shards | " + " | ".join(compared) + " |", "|---" * (len(compared) + 1) + "|"]
    for shards in SHARDS:
        outcomes = [
            simulate(times, replace(cluster, shards=shards), args.queries, args.seed) for cluster in compared.values()
        ]
        lines.append(f"| {shards} | " + " | ".join(map(cell, outcomes)) + " |")
    return "\n".join(lines) + "\n"


def cell(outcome: Outcome) -> str:
    """Three percentiles, and the share of partial answers where there are any."""
    text = " / ".join(f"{value:.0f}" for value in outcome.percentiles().values())
    partial = 1 - float(outcome.whole.mean())
    return text + (f", {100 * partial:.1f} % partial" if partial else "")


def agreement(measured: dict[str, Any], queries: int, seed: int) -> dict[str, Any]:
    """The measured and the simulated percentiles of one cluster, and whether those compared agree."""
    # No stragglers: the measured samples contain them.
    cluster = Cluster(
        shards=measured["shards"],
        round_trips=measured["round_trips"],
        hedge=measured["hedge"],
        candidates=measured.get("shortlisted", measured["candidates"]),  # shards may have timed only their own share
        stragglers=0.0,
        rate=measured.get("rate", 0.0),
    )
    outcome = simulate(ServiceTimes.from_json(measured), cluster, queries, seed)
    percentiles = replace_latency(outcome, measured["end_to_end_ms"]).percentiles()
    simulated = outcome.percentiles()
    off = {name: simulated[name] / percentiles[name] - 1 for name in percentiles}
    agrees = all(abs(off[name]) <= AGREES_WITHIN for name in COMPARED)
    return {"measured": percentiles, "simulated": simulated, "off": off, "agrees": agrees}


def replace_latency(outcome: Outcome, latency_ms: list[float]) -> Outcome:
    """An outcome with measured latencies, so that percentiles are taken in the same way."""
    return replace(outcome, latency_ms=np.array(latency_ms))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = whole.add_subparsers(dest="kind", required=True)
    measure = kinds.add_parser("measure")
    measure.add_argument("--data-dir", type=Path)
    measure.add_argument("--pictures", type=int, default=0, help="how many pictures the directory holds")
    measure.add_argument("--ray", action="store_true", help="also what a call to an actor takes")
    plan = kinds.add_parser("plan")
    plan.add_argument("--original", type=float, default=cluster_plan.Plan.original, help="bytes of a picture as sent")
    plan.add_argument("--replicas", type=int, default=cluster_plan.Plan.replicas)
    plan.add_argument("--model", default=cluster_plan.Plan.model)
    for name in ("simulate", "validate"):
        simulation = kinds.add_parser(name)
        simulation.add_argument("--seed", type=int, default=1)
        simulation.add_argument("--queries", type=int, default=QUERIES)
        if name == "simulate":
            simulation.add_argument("--times", type=Path, default=cluster_figures.SERVICE_TIMES)
            simulation.add_argument("--rows", type=float, default=1_000_000, help="pictures a shard")
            simulation.add_argument("--rate", type=float, default=0.0, help="queries a second")
            simulation.add_argument(
                "--stragglers", type=float, default=0.01, help="share of requests, ten times slower"
            )
        else:
            simulation.add_argument("--measured", type=Path, required=True)
    return whole


def main() -> None:
    """Run the command; `validate` exits with 1 if the simulation disagrees."""
    args = parser().parse_args()
    match args.kind:
        case "measure":
            cluster_figures.measure(args.data_dir, args.pictures, args.ray)
        case "plan":
            figures = json.loads(cluster_figures.FIGURES.read_text(encoding="utf-8"))
            plan = cluster_plan.Plan(original=args.original, replicas=args.replicas, model=args.model)
            print(cluster_plan.markdown(cluster_plan.plan_rows(figures, plan)), end="")
            print("\nOne machine alone ends at:\n")
            for name, pictures in sorted(cluster_plan.first_limits(figures, plan).items(), key=lambda item: item[1]):
                print(f"- {cluster_plan.amount(pictures, '')} pictures: {name}")
        case "simulate":
            print(simulated_table(args), end="")
        case "validate":
            report = agreement(json.loads(args.measured.read_text(encoding="utf-8")), args.queries, args.seed)
            print(json.dumps(report, indent=2))
            raise SystemExit(0 if report["agrees"] else 1)


if __name__ == "__main__":
    main()
