"""Published measurements as work on processors: `ops` and `devices` tables into rows to hold cost formulas against."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.processors import Arithmetic, Memory, Processor, gpu_processor
from placesim.prediction.work_amounts import Convolution, Direction, RecurrentLayer, Rows, StreamedBytes, Work, matrix_product

DATA = Path(__file__).parents[3] / "shared" / "corpus" / "timing"
WHERE = """no timing data at {}: the published tables are NeuSight's and DeepBench's kernels, PipeDream's layer profiles and
convnet-benchmarks' logs (github.com/sitar-lab/NeuSight, baidu-research/DeepBench, msr-fiddle/pipedream,
soumith/convnet-benchmarks), brought into one form; name the files with --ops and --devices"""
SAME_BOARD = {
    "Tesla K40": "Tesla K40c",
    "Titan X (Maxwell)": "GeForce GTX TITAN X",
    "GTX 1080": "GeForce GTX 1080",
    "GTX 1080 Ti": "GeForce GTX 1080 Ti",
    "Titan X (Pascal)": "TITAN X (Pascal)",
    "Titan Xp": "TITAN Xp",
    "Tesla P100": "Tesla P100-PCIE-16GB",
    "Tesla P100 SXM2": "Tesla P100-SXM2-16GB",
    "Tesla V100": "Tesla V100-PCIE-32GB",
    "Tesla V100 SXM2": "Tesla V100-SXM2-16GB",
    "PipeDream profile GPU (unnamed)": "Tesla V100-SXM2-16GB",
    "Titan V": "TITAN V",
    "RTX 2080 Ti": "GeForce RTX 2080 Ti",
    "L4": "NVIDIA L4",
    "A100 40GB PCIe": "A100-PCIE-40GB",
    "A100 40GB SXM": "A100-SXM4-40GB",
    "A100 80GB PCIe": "A100 80GB PCIe",
    "A100 80GB SXM4": "A100-SXM4-80GB",
    "H100 SXM": "H100-SXM5-80GB",
    "H100 PCIe": "H100-PCIE-80GB",
    "H800 SXM": "H100-SXM5-80GB",
    "H200 SXM": "H200-SXM5-141GB",
    "RTX 3090": "GeForce RTX 3090",
    "RTX 4090": "GeForce RTX 4090",
    "RTX 5090": "GeForce RTX 5090",
    "RTX PRO 6000 Blackwell Max-Q": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
}
"""The catalogue's name of a device of the tables, from which come watts, process, cache and kind of memory."""
LAUNCHES = {
    "NeuSight": 16e-6,
    "NeuSight softmax": 23e-6,
    "NeuSight layernorm": 47e-6,
    "DeepBench train": 10e-6,
    "DeepBench inference": 3e-6,
    "pipedream forward": 270e-6,
    "pipedream forward batchnorm": 288e-6,
    "pipedream backward": 22e-6,
    "pipedream backward batchnorm": 38e-6,
    "pipedream backward pool_max": 48e-6,
    "convnet": 10e-6,
    "XLA": 1.4e-6,
}
"""Seconds that each recording adds to a kernel, by its name or its name and the op: PyTorch's launch while the GPU waits for it
(NeuSight), DeepBench's loops, PipeDream's hooks in Python, Caffe's timer.  They are the recordings' own and no part of what
placesim ships: NeuSight's and PipeDream's are fitted beside our recording, in which no kernel waits for its launch; XLA's
is that of an H100's bfloat16 products of up to 7 us, which we recorded, too; the others are read off the shortest rows."""
_ELEMENTWISE = {"add", "addu", "mul", "mulu", "div", "divu", "pow", "powu", "relu", "gelu", "tanh", "dropout"}
_STREAMED = {"batchnorm": "batch normalization", "pool_max": "pooling", "pool_ave": "pooling"}
_GATES = {"vanilla": 1, "gru": 3, "lstm": 4}
_DIRECTIONS: Mapping[str, tuple[Direction, ...]] = {
    "fwd": ("forward",),
    "bwd_input": ("input gradient",),
    "bwd_weight": ("filter gradient",),
    "bwd_total": ("input gradient", "filter gradient"),
}
_ARITHMETICS: Mapping[str, Arithmetic] = {"f32": "float32", "f16*f32+": "float16", "f8*f32+": "float8", "i32": "int8"}
_SIZES = {"f32": 4, "f16": 2, "f8": 1, "i8": 1}
_REACHED_OF_AMD = 0.75
"""What AMD's products of 2017 reach of the sheet at best (0.69 to 0.74 of it in DeepBench's rows): the libraries were young."""
_GRADIENT_TENSORS = 3 / 4
"""The gradient of an elementwise op, or of batch normalization, moves three tensors (two in, one out); the table counts twice
the two of the op itself."""
_DOT_PRODUCT_GAIN = 4
"""Int8 products without the layouts of tensor cores take four multiplications in a lane (dp4a)."""


class Measurement(NamedTuple):
    """One row: its work (a sum, where a row holds two gradients), where, how long, and what identifies its sizes."""

    work: tuple[Work, ...]
    processor: Processor
    launch_seconds: float
    seconds: float
    device: str
    harness: str
    sizes: str


class UnmodelledRow(NamedTuple):
    """A row that no formula stands for."""

    device: str
    op: str


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table with a header, compressed where its name ends in .gz."""
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
        yield from csv.DictReader(file)


def read_processors(path: Path) -> dict[str, Processor]:
    """Each device of a table: the catalogue's, where it has it, else of the table's figures."""
    return {row["device"]: found for row in read_table(path) if (found := _processor(row)) is not None}


def _processor(row: Mapping[str, str]) -> Processor | None:
    units, clock, float32 = row["units"].split(" ")[0], row["clock_MHz"], float(row["fp32_tflops"] or 0) * 1e12
    if not (units and clock and float32):
        return None
    model = GPU_MODELS.get(SAME_BOARD.get(row["device"], row["device"]))
    if model is not None:
        known = gpu_processor(model)
        # the tables' int8 products are not laid out for tensor cores
        rates = {**known.rates, "int8": _DOT_PRODUCT_GAIN * known.rate("float32")}
        return replace(known, name=row["device"], rates=rates)
    reached = float32 * (_REACHED_OF_AMD if row["device"].startswith("AMD") else 1)
    half = float(row["tensor_f16_tflops"] or 0) * 1e12
    has_tensor_cores = half > 3 * float32
    cores = sum(int(part.strip("PE+")) for part in units.split("+") if part.strip("PE+").isdigit())
    return Processor(
        name=row["device"],
        rates={"float32": reached, "float16": half or reached, "int8": _DOT_PRODUCT_GAIN * reached},
        bandwidth=float(row["mem_GBps"]) * 1e9,
        units=cores,
        clock_hz=float(clock) * 1e6,
        memory="processor" if row["kind"] == "cpu" else _kind_by_width(row),
        tensor=frozenset(("float16",) if has_tensor_cores else ()),
        cache_bytes=cores * 64 * 1024,
    )


def _kind_by_width(row: Mapping[str, str]) -> Memory:
    """HBM for boards that the catalogue lacks: AMD's of the tables, and whatever moves more than GDDR can."""
    return "stacked" if row["device"].startswith("AMD") or float(row["mem_GBps"]) > 1800 else "planar"


def read_measurements(ops: Path, processors: Mapping[str, Processor]) -> Iterator[Measurement | UnmodelledRow]:
    """Each row of the op table, in its order."""
    for row in read_table(ops):
        work = tuple(_work(row)) if row["device"] in processors else ()
        if not work:
            yield UnmodelledRow(row["device"], row["op"])
            continue
        harness = _harness(row)
        sizes = f"{row['op']} {row['dims']}"
        processor = processors[row["device"]]
        launch = LAUNCHES.get(f"{harness} {row['op']}", LAUNCHES.get(harness, 0.0))
        yield Measurement(work, processor, launch, float(row["ms"]) * 1e-3, row["device"], harness, sizes)


def _harness(row: Mapping[str, str]) -> str:
    """The key of `LAUNCHES`."""
    if row["suite"].startswith("DeepBench"):
        return row["suite"]
    if row["suite"].startswith("pipedream"):
        return "pipedream forward" if row["phase"] == "fwd" else "pipedream backward"
    return row["suite"].partition("-")[0].partition(" ")[0]


def _work(row: Mapping[str, str]) -> Iterator[Work]:
    op, arithmetic, size = row["op"], _ARITHMETICS.get(row["math"]), _SIZES.get(row["dtype"])
    if arithmetic is None or size is None:
        return
    texts = dict(part.split("=", 1) for part in row["dims"].split(";") if "=" in part)
    dims = {name: int(value) for name, value in texts.items() if value.isdigit()}
    if op in {"gemm", "bmm"}:
        yield from _products(row, dims, arithmetic, size)
    elif op == "conv":
        for direction in _DIRECTIONS[row["phase"]]:
            yield _convolution(dims).work(direction, arithmetic, size)
    elif op in _ELEMENTWISE:
        yield StreamedBytes("elementwise", float(row["bytes"]) * (_GRADIENT_TENSORS if row["phase"] == "bwd_total" else 1))
    elif op in _STREAMED:
        is_gradient = row["phase"] != "fwd"
        share = _GRADIENT_TENSORS if is_gradient and op == "batchnorm" else 1
        yield StreamedBytes(_STREAMED[op] + (" gradient" if is_gradient else ""), float(row["bytes"]) * share)
    elif op in {"softmax", "layernorm"}:
        yield Rows("softmax" if op == "softmax" else "layer normalization", dims["rows"], dims["cols"], size)
    elif op.startswith("rnn_"):
        for direction in _DIRECTIONS[row["phase"]]:
            sizes = (_GATES[texts["cell"]], dims["hidden"], dims["n"], dims["t"])
            yield RecurrentLayer(f"recurrent {direction}", *sizes, arithmetic, size)


def _products(row: Mapping[str, str], dims: Mapping[str, int], arithmetic: Arithmetic, size: int) -> Iterator[Work]:
    """NeuSight names the sizes of `[m, n] @ [n, k]`: its times fall with tiles of m and k, and not of n."""
    m, n, k = dims["m"], dims["n"], dims["k"]
    if row["suite"].startswith("NeuSight"):
        n, k = k, n
    product = matrix_product(dims.get("b", 1), m, n, k, arithmetic, size)
    # the sum of float8 products has two bytes
    yield product._replace(moved_bytes=float(row["bytes"])) if arithmetic == "float8" else product
    if row["phase"] == "bwd_total":
        yield matrix_product(dims.get("b", 1), m, k, n, arithmetic, size)


def _convolution(dims: Mapping[str, int]) -> Convolution:
    """PipeDream's rows have the elements of the result, and no image sizes: each of its pixels is an image then."""
    if "out_elements" in dims:
        pixels = dims["out_elements"] // dims["k"]
        dims = {**dims, "n": pixels, "h": dims["sh"], "w": dims["sw"], "oh": 1, "ow": 1}
    names = ("n", "c", "h", "w", "k", "fh", "fw", "sh", "sw", "oh", "ow")
    return Convolution._make([*(dims[name] for name in names), dims.get("groups", 1)])
