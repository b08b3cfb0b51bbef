"""Predicted times beside published ones: `python -m tests.benchmarks.timing_bench --ops FILE --models FILE --devices FILE`.

Predictions with the constants that placesim ships, nothing is fitted here.  Errors are |predicted - measured| / measured, their
median, their 90th percentile and their number; `bias` is the median of predicted / measured - 1, and `within` how many of the
measurements lay in the interval that is given with each prediction (80 % if it says what it means).  Ops by family and device;
whole networks, as graphs that are simulated, by suite, family, network, device and framework; steps on several GPUs from the
same step on one, beside what would be if nothing were lost; all-reduces as rings; and speed-ups of graphs that `parallelize`
rewrites, which several GPUs of a host reach.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, Protocol

from placesim.prediction.cost_formulas import predict, work_family
from placesim.prediction.processors import Processor
from placesim.prediction.simulated_steps import DEVIATION_SCALE, RECENT_DEVIATION_SCALE
from tests.benchmarks.collective_times import predict_collectives
from tests.benchmarks.network_rows import NetworkRow, OmittedRow, read_networks
from tests.benchmarks.network_times import NetworkTime, predict_networks, predict_scaled, sharing_of
from tests.benchmarks.recorded_networks import recorded_networks
from tests.benchmarks.scaling import EXPECTED_SLOWEST, SPREAD_OF_BOARDS
from tests.benchmarks.step_intervals import deviation_scale, write_coverage
from tests.benchmarks.strategy_times import predict_strategies
from tests.benchmarks.timing_rows import DATA, WHERE, Measurement, UnmodelledRow, read_measurements, read_processors


class Comparison(NamedTuple):
    """A measurement and what was predicted of it."""

    family: str
    device: str
    error: float
    is_within: bool


def compare(row: Measurement) -> Comparison:
    """The sum of the row's works, each after the launch that its recording adds."""
    found = [predict(work, row.processor, row.launch_seconds) for work in row.work]
    seconds, low, high = (sum(part) for part in zip(*found, strict=True))
    families = [work_family(work, row.processor) for work in row.work]
    family = families[0] if len(families) == 1 else families[0].replace("input gradient", "both gradients")
    error = abs(seconds - row.seconds) / row.seconds
    return Comparison(family, row.device, error, low <= row.seconds <= high)


def percentile_90(values: Sequence[float]) -> float:
    """Of one value, that one."""
    return quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]


def write_table(title: str, groups: Mapping[str, Sequence[Comparison]]) -> None:
    """A line for each group, with the number of its rows and its errors in percent."""
    print(f"\n{title:<40}   rows  median     p90  within  (percent)")
    for name, rows in sorted(groups.items()):
        errors = [100 * row.error for row in rows]
        within = 100 * sum(row.is_within for row in rows) / len(rows)
        print(f"{name:<40} {len(rows):6} {median(errors):7.1f} {percentile_90(errors):7.1f} {within:7.0f}")


def grouped(rows: Iterable[Comparison], column: int) -> dict[str, list[Comparison]]:
    """The comparisons by family (0) or device (1)."""
    found: dict[str, list[Comparison]] = defaultdict(list)
    for row in rows:
        found[str(row[column])].append(row)
    return found


def bench_ops(ops: Path, processors: Mapping[str, Processor]) -> None:
    """Errors over a table of ops."""
    rows = list(read_measurements(ops, processors))
    compared = [compare(row) for row in rows if isinstance(row, Measurement)]
    write_table("all op rows", {"all": compared})
    write_table("by family", grouped(compared, 0))
    write_table("by device", grouped(compared, 1))
    left_out = Counter(f"{row.op} on {row.device}" for row in rows if isinstance(row, UnmodelledRow))
    told = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
    print(f"\nrows that no formula stands for: {sum(left_out.values())}{': ' + told if told else ''}")


class TimedRow(Protocol):
    """A prediction beside its measurement, in seconds."""

    @property
    def seconds(self) -> float: ...

    @property
    def measured(self) -> float: ...


def write_errors(title: str, found: Sequence[TimedRow], label: Callable[[Any], str]) -> None:
    """A line for each label of the predictions, with the number of its rows, errors and bias in percent."""
    groups: dict[str, list[TimedRow]] = defaultdict(list)
    for timed in found:
        groups[label(timed)].append(timed)
    print(f"\n{title:<66}   rows  median     p90    bias  within  (percent)")
    for name, rows in sorted(groups.items()):
        ratios = [row.seconds / row.measured for row in rows]
        errors = [100 * abs(ratio - 1) for ratio in ratios]
        inside = [row.is_within for row in rows if isinstance(row, NetworkTime)]
        within = f"{100 * sum(inside) / len(inside):7.0f}" if inside else "      -"
        bias = 100 * (median(ratios) - 1)
        print(f"{name:<66} {len(rows):6} {median(errors):7.1f} {percentile_90(errors):7.1f} {bias:+7.1f} {within}")


def bench_models(models: Path, devices: Path) -> None:
    """Errors over whole networks on one GPU, and over those on several."""
    rows = list(read_networks(models, devices))
    single = [row for row in rows if isinstance(row, NetworkRow)]
    found = predict_networks(single)
    write_errors("whole networks", found, lambda time: "all")
    write_errors("by suite", found, lambda time: time.row.suite)
    write_errors("by family", found, lambda time: f"{time.row.family}, {_phase(time.row)}")
    write_errors("by device", found, lambda time: time.row.device)
    write_errors("by framework", found, lambda time: f"{time.row.device}, {time.row.framework}, {_phase(time.row)}")
    write_errors("by network", found, lambda time: time.row.run.network)
    bench_intervals(found)
    left_out = Counter((row.suite, row.why) for row in rows if isinstance(row, OmittedRow))
    print("\nrows of networks that are left out, and why")
    for (suite, why), count in sorted(left_out.items()):
        print(f"{suite:<30} {count:6} {why}")
    scaled = predict_scaled([row for row in rows if not isinstance(row, OmittedRow)])
    if scaled:
        write_errors("several GPUs, from the row on one", scaled, lambda time: "all")
        ideal = [100 * time.ideal_error for time in scaled]
        print(f"{'if nothing were lost':<66} {len(ideal):6} {median(ideal):7.1f} {percentile_90(ideal):7.1f}")
        write_errors("by sharing", scaled, lambda time: f"{sharing_of(time.row.variant)}, {time.row.device}")
        write_errors("by number of GPUs", scaled, lambda time: f"{time.row.gpus:2} GPUs")
        write_errors("by network", scaled, lambda time: time.row.run.network)


def bench_intervals(found: Sequence[NetworkTime]) -> None:
    """How many steps lie in their intervals, of these and of our recording."""
    steps = [*found, *predict_networks(recorded_networks())]
    print("\nscale of steps' deviations")
    for name, is_recent, shipped in (("recent GPUs", True, RECENT_DEVIATION_SCALE), ("others", False, DEVIATION_SCALE)):
        alike = [time for time in steps if time.is_recent == is_recent]
        print(f"{name}: {f'{deviation_scale(alike):.2f} fitted here' if alike else 'no rows'}, {shipped} shipped")
    write_coverage("steps in their intervals, by device", steps, lambda time: time.row.device)
    write_coverage("steps in their intervals, by family", steps, lambda time: time.row.family)


def bench_strategies(models: Path, devices: Path) -> None:
    """Predicted and published speed-ups of rewritten graphs, and their errors."""
    rows = [row for row in read_networks(models, devices) if not isinstance(row, OmittedRow)]
    found = predict_strategies(rows, sharing_of)
    print(f"\n{'speed-ups of rewritten graphs':<66}   GPUs  published  predicted")
    for time in found:
        name = f"{time.row.device}, {time.row.run.network}, batch {time.row.run.batch}, {time.row.variant}"
        print(f"{name[:66]:<66} {time.row.gpus:6} {time.measured:10.2f} {time.predicted:10.2f}")
    write_errors("errors of speed-ups", found, lambda time: "all")
    for what, pace in (("if nothing were lost", 0.0), ("if only the slowest board counted", SPREAD_OF_BOARDS)):
        errors = [100 * abs(time.row.gpus / (1 + pace * EXPECTED_SLOWEST[time.row.gpus]) / time.measured - 1) for time in found]
        print(f"{what:<66} {len(errors):6} {median(errors):7.1f} {percentile_90(errors):7.1f}")
    write_errors("by sharing", found, lambda time: f"{time.sharing}, {time.row.device}")
    write_errors("by number of GPUs", found, lambda time: f"{time.row.gpus:2} GPUs")
    write_errors("by input", found, lambda time: "real" if "real" in time.row.variant else "synthetic")


def _phase(row: NetworkRow) -> str:
    return "training" if row.run.is_training else "inference"


def bench_collectives(path: Path) -> None:
    """Errors over all-reduces."""
    found = list(predict_collectives(path))
    write_errors("all-reduces", found, lambda time: "all")
    write_errors("by device and library", found, lambda time: f"{time.device}, {time.algorithm}")
    write_errors("by number of ranks", found, lambda time: f"{time.ranks:2} ranks")
    write_errors("by library and number of ranks", found, lambda time: f"{time.algorithm.split()[0]}, {time.ranks:2} ranks")


def main() -> int:
    """Prints the tables; says where the data is found where it is not there, which is an error of a file that was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--ops", "ops.csv.gz"), ("--models", "models.csv.gz"), ("--devices", "devices.csv")):
        parser.add_argument(name, type=Path, default=DATA / default)
    parser.add_argument("--collectives", type=Path, default=DATA / "collectives.csv")
    parser.add_argument("--only", choices=("ops", "models", "collectives", "strategies"), help="one of the parts")
    args = parser.parse_args()
    missing = [path for path in (args.ops, args.devices, args.models) if not path.is_file()]
    if missing:
        print(WHERE.format(", ".join(map(str, missing))), file=sys.stderr)
        return int(any(path.parent != DATA for path in missing))
    benches: dict[str, Callable[[], None]] = {
        "ops": lambda: bench_ops(args.ops, read_processors(args.devices)),
        "models": lambda: bench_models(args.models, args.devices),
        "strategies": lambda: bench_strategies(args.models, args.devices),
    }
    if args.collectives.is_file():
        benches["collectives"] = lambda: bench_collectives(args.collectives)
    for name in benches if args.only is None else (args.only,):
        benches[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
