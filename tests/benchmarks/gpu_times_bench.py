"""Predicted times beside those of our recording of an H100 and an H200, and of published products of tensor cores.

Prints the errors by family of kernels and by op, products by type, and whole networks; nothing is fitted here.  `python -m
tests.benchmarks.gpu_times_bench [--recording FILE]`: a file that `record_gpu` wrote, which no constant is fitted to.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from placesim.prediction.work_amounts import Product
from tests.benchmarks.network_times import predict_networks
from tests.benchmarks.recorded_networks import recorded_networks
from tests.benchmarks.recorded_rows import FOREIGN, RECORDING, read_judged, read_published, read_recording
from tests.benchmarks.timing_bench import compare, grouped, write_errors, write_table
from tests.benchmarks.timing_rows import Measurement


def product_label(row: Measurement) -> str:
    """Device, type, and whether it took more than 30 microseconds."""
    work = row.work[0]
    assert isinstance(work, Product)
    return f"{row.device}, {work.arithmetic}, {'up to 30 us' if row.seconds <= 3e-5 else 'longer'}"


def judged_label(row: Measurement) -> str:
    """Device, type and who published it."""
    work = row.work[0]
    assert isinstance(work, Product)
    return f"{row.device}, {work.arithmetic}, {row.harness.partition('/')[0]}"


def op_label(row: Measurement) -> str:
    """The op as the recording names it."""
    return str(json.loads(row.sizes)["op"])


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=Path, default=RECORDING)
    args = parser.parse_args()
    rows = list(read_recording(args.recording))
    for card in dict.fromkeys(row.device for row in rows):
        own = [compare(row) for row in rows if row.device == card and op_label(row) not in FOREIGN]
        others = [compare(row) for row in rows if row.device == card and op_label(row) in FOREIGN]
        write_table(f"{card}, by family", {"all": own, **grouped(own, 0), "other kernels of PyTorch": others})
    ops = dict.fromkeys(map(op_label, rows))
    write_table("by op", {op: [compare(row) for row in rows if op_label(row) == op] for op in ops})
    products = [row for row in rows if '"op": "matmul"' in row.sizes]
    labels = dict.fromkeys(map(product_label, products))
    write_table("products", {label: [compare(row) for row in products if product_label(row) == label] for label in labels})
    write_table("published products", grouped([compare(row) for row in read_published()], 1))
    judged = list(read_judged())
    kinds = dict.fromkeys(map(judged_label, judged))
    write_table(
        "published products that no constant is fitted to",
        {kind: [compare(row) for row in judged if judged_label(row) == kind] for kind in kinds},
    )
    found = predict_networks(recorded_networks(args.recording))
    write_errors("networks", found, lambda time: "all")
    write_errors("by network", found, lambda time: f"{time.row.device}, {time.row.run.network}, {time.row.framework}")


if __name__ == "__main__":
    main()
