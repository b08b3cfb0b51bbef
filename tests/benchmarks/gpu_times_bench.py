"""Predicted times beside those of our recording of an H100 and an H200, and of published products of tensor cores.

Prints the errors by family of kernels and by op, products by type, and whole networks; nothing is fitted here.  `python -m
tests.benchmarks.gpu_times_bench [--recording FILE]`: a file that `record_gpu` wrote, which no constant is fitted to.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.work_amounts import Product
from tests.benchmarks.network_rows import NetworkRow, NetworkRun
from tests.benchmarks.network_tape import Layout, Numerics
from tests.benchmarks.network_times import predict_networks
from tests.benchmarks.networks import architecture
from tests.benchmarks.recorded_rows import FOREIGN, RECORDING, read_judged, read_lines, read_published, read_recording
from tests.benchmarks.timing_bench import compare, grouped, write_errors, write_table
from tests.benchmarks.timing_rows import Measurement

_NUMERICS = {"tf32": Numerics(), "bfloat16": Numerics("half", "float32")}
"""Float32 without tf32 is not TensorFlow's default, and no graph says it; bfloat16 takes the time of float16."""


_NETWORKS = {"alexnet": "alexnet_owt", "mobilenet_v2": "mobilenetv2_100"}
"""PyTorch's AlexNet is that of "one weird trick"."""


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


def recorded_networks(path: Path = RECORDING) -> list[NetworkRow]:
    """The steps of networks that `networks` builds, without PyTorch's launches where a step was captured.

    Attention in one kernel is left out, since TensorFlow has no such op.
    """
    found = []
    for card, line in read_lines(path):
        if line["op"] != "network" or line["mode"] not in _NUMERICS:
            continue
        network: str = _NETWORKS.get(line["network"], line["network"])
        known = architecture(network)
        if known is not None and not (known.family == "Transformer" and line["is_fused"]):
            layout: Layout = "NHWC" if line["last"] else "NCHW"
            trains, numerics = line["is_training"], _NUMERICS[line["mode"]]
            run = NetworkRun(network, line["batch"], trains, trains, layout, numerics, line["length"])
            seconds = line.get("captured", line["seconds"])
            found.append(NetworkRow(run, card, GPU_MODELS[card], "recorded", line["mode"], layout, seconds))
    return found


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
