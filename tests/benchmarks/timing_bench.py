"""Predicted times beside published ones: `python -m tests.benchmarks.timing_bench --ops FILE --models FILE --devices FILE`.

Predictions with the constants that placesim ships, nothing is fitted here.  Errors are |predicted - measured| / measured, their
median, their 90th percentile and their number, by family and by device; `within` is how many of the measurements lay in the
interval that is given with each prediction (80 % if it says what it means).  Of whole networks the table holds multiplications,
activations and parameters, no graph: their time is bounded from below by these, and the bench says how far above they are.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from placesim.prediction.costs import predict, work_family
from placesim.prediction.processors import Processor
from tests.benchmarks.timing_rows import DATA, WHERE, Measurement, Unmodelled, read_measurements, read_processors, read_table


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
    left_out = Counter(f"{row.op} on {row.device}" for row in rows if isinstance(row, Unmodelled))
    told = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
    print(f"\nrows that no formula stands for: {sum(left_out.values())}{': ' + told if told else ''}")


def bench_models(models: Path, processors: Mapping[str, Processor]) -> None:
    """How far measured inference is above the least that a network's multiplications take at the peak rate."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in read_table(models):
        processor = processors.get(row["device"])
        if processor is None or row["mode"] != "inference" or not row["gmacs"] or not row["ms"] or row["n_devices"] != "1":
            continue
        rate = processor.rates.get("float16" if row["dtype"] in {"f16", "amp"} else "float32", 0.0)
        least = 2e9 * float(row["gmacs"]) * float(row["batch"] or 1) / rate if rate else 0.0
        if least:
            found[row["device"]].append(float(row["ms"]) * 1e-3 / least)
    print(f"\n{'whole networks: measured / peak time':<40}   rows  median     p90")
    for device, ratios in sorted(found.items()):
        print(f"{device:<40} {len(ratios):6} {median(ratios):7.1f} {percentile_90(ratios):7.1f}")


def main() -> int:
    """Prints the tables; says where the data is found where it is not there, which is an error of a file that was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--ops", "ops.csv.gz"), ("--models", "models.csv.gz"), ("--devices", "devices.csv")):
        parser.add_argument(name, type=Path, default=DATA / default)
    args = parser.parse_args()
    missing = [path for path in (args.ops, args.devices, args.models) if not path.is_file()]
    if missing:
        print(WHERE.format(", ".join(map(str, missing))), file=sys.stderr)
        return int(any(path.parent != DATA for path in missing))
    processors = read_processors(args.devices)
    bench_ops(args.ops, processors)
    bench_models(args.models, processors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
