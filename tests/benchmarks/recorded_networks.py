"""Steps of networks that `record_gpu` recorded, as rows of networks."""

from __future__ import annotations

from pathlib import Path

from placesim.machine.gpu_models import GPU_MODELS
from tests.benchmarks.network_rows import NetworkRow, NetworkRun
from tests.benchmarks.network_tape import Layout, Numerics
from tests.benchmarks.networks import architecture
from tests.benchmarks.recorded_rows import RECORDING, read_lines

_NUMERICS = {"tf32": Numerics(), "bfloat16": Numerics("bfloat16", "float32")}
"""Float32 without tf32 is not TensorFlow's default, and no graph says it."""


_NETWORKS = {"alexnet": "alexnet_owt", "mobilenet_v2": "mobilenetv2_100"}
"""PyTorch's AlexNet is that of "one weird trick"."""


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
