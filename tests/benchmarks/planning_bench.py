"""Plans beside published ones: `python -m tests.benchmarks.planning_bench [DIR] [--seconds 30] [--stg-seconds 5]`.

First come graphs of our own, which need no data: small ones beside all their placements, and training steps that are short of
memory, beside the best known plans, which `--long SECONDS` searches to improve (`planning_graphs.py`).
Any folder laid out like the data (msr/, stg/, results.csv, evaluate.py) is taken.  For each instance: the value, scored by
`evaluate.py` from the instance alone, the best published one, the bound, the gap and the seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from placesim.core.errors import PlacesimError
from placesim.planning.portfolio import Effort, PlanResult, plan_problem
from tests.benchmarks.planning_graphs import NETWORKS, bench_small, bench_trainings
from tests.benchmarks.planning_instances import (
    DATA,
    WHERE,
    load_evaluator,
    msr_files,
    published_msr,
    read_msr,
    scheduling_instances,
    score_msr,
    score_schedule,
)

WITHIN = 1e-4
"""A value within so much of the published one counts as reached."""


def bench_msr(folder: Path, effort: Effort, *, needs_contiguous: bool) -> None:
    """Pipelines and latencies."""
    evaluator, published = load_evaluator(folder), published_msr(folder)
    reached = compared = 0
    for path, name, is_latency in msr_files(folder):
        if is_latency and needs_contiguous:
            continue
        instance = read_msr(path, is_latency=is_latency, needs_contiguous=needs_contiguous)
        planned, seconds = _timed(instance.problem, effort)
        if planned.plan is None:
            print(f"{name:<56} NO PLAN FITS   bound {planned.bound.value:10.4f} {seconds:5.1f} s", flush=True)
            continue
        scored = score_msr(evaluator, path, instance, planned.plan)
        known = published.get(("latency" if is_latency else "maxload", name, needs_contiguous))
        is_reached = known is not None and scored["objective"] <= known * (1 + WITHIN)
        compared, reached = compared + (known is not None), reached + is_reached
        told = "-" if known is None else f"{known:.4f}"
        verdict = "" if known is None else "reached" if is_reached else "NOT REACHED"
        print(
            f"{name:<56} {scored['objective']:11.4f} {told:>11} bound {planned.bound.value:10.4f} gap {planned.gap:6.2%} "
            f"{seconds:5.1f} s  {planned.method:<12} {verdict}{'' if scored['feasible'] else ' INFEASIBLE'}",
            flush=True,
        )
    print(f"at or below the best published value: {reached} of {compared}")


def bench_schedules(folder: Path, effort: Effort, step: int) -> None:
    """Task graphs on equal processors, by the number of cases."""
    evaluator = load_evaluator(folder)
    proven = reached = tight = cases = feasible = 0
    gaps, slowest, total = 0.0, 0.0, 0.0
    by_set: dict[str, list[int]] = {}
    for number, instance in enumerate(scheduling_instances(folder / "stg")):
        if number % step:
            continue
        planned, seconds = _timed(instance.problem, effort)
        assert planned.plan is not None
        scored = score_schedule(evaluator, instance.problem, planned.plan)
        cases, feasible, slowest = cases + 1, feasible + scored["feasible"], max(slowest, seconds)
        total += seconds
        gaps += max(0.0, scored["objective"] / instance.published - 1) if instance.published else 0.0
        told = "-" if instance.published is None else f"{instance.published:g}"
        line = f"{instance.name}: {scored['objective']:g}, published {told}, bound {planned.bound.value:g}, {seconds:.1f} s"
        if instance.optimum is None:
            print(line, flush=True)
            continue
        if planned.bound.value > instance.optimum * (1 + 1e-9):
            print(f"{instance.name}: BOUND {planned.bound.value} ABOVE THE OPTIMUM {instance.optimum}")
        is_reached = scored["objective"] <= instance.optimum
        proven, reached, tight = proven + 1, reached + is_reached, tight + (planned.bound.value >= instance.optimum - 1e-6)
        counts = by_set.setdefault("RGPOS" if "rgpos" in instance.name else "STG", [0, 0])
        counts[0] += is_reached
        counts[1] += 1
        print(line if is_reached else f"{line} NOT REACHED", flush=True)
    for name, (met, count) in by_set.items():
        print(f"{name}: the proven optimum in {met} of {count} cases ({met / count:.2%})")
    if cases:
        print(
            f"{cases} cases in {total:.0f} s, {feasible} feasible; mean excess over the best known value {gaps / cases:.3%}; "
            f"the bound equals the optimum in {tight} of {proven} proven cases; slowest {slowest:.1f} s"
        )


def _timed(problem: object, effort: Effort) -> tuple[PlanResult, float]:
    began = time.monotonic()
    planned = plan_problem(problem, effort)  # type: ignore[arg-type]
    return planned, time.monotonic() - began


def main() -> int:
    """Prints the tables; says where the data is found where it is not there, which is an error of a folder that was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    parser.add_argument("--seconds", type=float, default=30.0, help="for each pipeline and latency")
    parser.add_argument("--stg-seconds", type=float, default=5.0, help="for each task graph")
    parser.add_argument("--step", type=int, help="every so many task graphs: all of a folder that is named, else every ninth")
    parser.add_argument("--only", choices=("small", "training", "load", "contiguous", "stg"), help="one part")
    parser.add_argument("--small", type=int, default=64, metavar="N", help="number of small graphs")
    parser.add_argument("--graph-seconds", type=float, default=10.0, help="for each training step; small graphs get half")
    parser.add_argument(
        "--long", type=float, metavar="SECONDS", help="for a longer search of each training step, whose better plans are kept"
    )
    parser.add_argument("--network", action="append", choices=NETWORKS, help="one training step (repeatable)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.only in {None, "small"}:
        bench_small(args.small, Effort(args.graph_seconds / 2, seed=args.seed))
    if args.only in {None, "training"}:
        names = tuple(args.network or NETWORKS)
        bench_trainings(Effort(args.graph_seconds, seed=args.seed), args.long, names)
    if args.only in {"small", "training"}:
        return 0
    if not args.folder.is_dir():
        print(WHERE.format(args.folder), file=sys.stderr)
        return int(args.folder != DATA)
    try:
        _bench(args)
    except PlacesimError as error:
        print(f"{args.folder}: {error}", file=sys.stderr)
        return 2
    return 0


def _bench(args: argparse.Namespace) -> None:
    step = args.step or (1 if args.folder != DATA else 9)
    effort = Effort(args.seconds, seed=args.seed)
    if args.only in {None, "load"}:
        bench_msr(args.folder, effort, needs_contiguous=False)
    if args.only in {None, "contiguous"}:
        bench_msr(args.folder, effort, needs_contiguous=True)
    if args.only in {None, "stg"}:
        bench_schedules(args.folder, Effort(args.stg_seconds, seed=args.seed), step)


if __name__ == "__main__":
    sys.exit(main())
