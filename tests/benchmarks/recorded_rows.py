"""Kernels that `record_gpu` recorded, and published products of tensor cores, as measurements to hold cost formulas against."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.cost_formulas import rearranged_passes, work_family
from placesim.prediction.processors import Arithmetic, Processor, gpu_processor
from placesim.prediction.work_amounts import Convolution, Direction, Product, Rows, StreamedBytes, Work, matrix_product
from tests.benchmarks.timing_rows import LAUNCHES, Measurement, read_table

RECORDING = Path(__file__).parents[1] / "data" / "gpu-times.jsonl.gz"
PUBLISHED = RECORDING.with_name("published-products.csv")
JUDGED = RECORDING.with_name("judged-products.csv.gz")
CARDS = {"NVIDIA H100 80GB HBM3": "H100-SXM5-80GB", "NVIDIA H200": "H200-SXM5-141GB"}
_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1}
_RESULT_BYTES = {"float8": 2, "int8": 4}
_DIRECTIONS: Mapping[str, Direction] = {name: name for name in get_args(Direction)}
_ROWS = ("softmax", "layer normalization")
_STREAMED = (
    "batch normalization",
    "batch normalization gradient",
    "max pooling",
    "max pooling gradient",
    "average pooling",
    "average pooling gradient",
)
_ROW_REDUCTIONS = ("sum of rows", "max of rows", "argmax of rows")
_REDUCTIONS = ("sum of all", "sum of columns", "mean of images")
_PLACED = {"bias": 1, "product with a column": 1, "sum of a row and a column": 1, "concatenation": 2, "slice": 0.5,
           "bias of columns": 1, "bias of planes": 1, "swap of middle axes": 1, "transpose in tiles": 1}  # fmt: skip
"""Ops that find the places of elements in operands of another shape, and how many of those they have for each of a grid's."""
_ELEMENTWISE = ("relu", "gelu", "exp", "tanh", "sigmoid", "copy", "scale", "add", "mul", "greater", "cast to bfloat16",
                "add of a number")  # fmt: skip
FOREIGN = frozenset(("transpose", "to the other layout", "cumulative sum", "dropout", "gather", "sum into rows", "fill",
                     "softmax gradient", "layer normalization gradient"))  # fmt: skip
"""Kernels of PyTorch that no formula is for: they count as elementwise ops, and are no part of the fit.

Its transposes, changes of layout and running sums read memory crosswise, where TensorFlow has kernels with tiles.
"""
_LONG_SECONDS = 1e-4
_NOT_KERNELS = ("launch", "transfer", "network", "attention", "lstm")


def read_lines(path: Path = RECORDING) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line that is a measurement, with the catalogue's name of its card."""
    card = ""
    with gzip.open(path, "rt") as file:
        for line in map(json.loads, file):
            card = CARDS[line["card"]] if "card" in line else card
            if "seconds" in line:
                yield card, line


def read_recording(path: Path = RECORDING) -> Iterator[Measurement]:
    """The kernels, in the order of the recording; steps of networks, attention, transfers and launches are none."""
    for card, line in _kernels(path):
        yield _measurement(card, line, "seconds")


def read_fit_rows(path: Path = RECORDING) -> Iterator[Measurement]:
    """Products, convolutions on tensor cores with adjacent channels, streams and rows: the tenth percentile of their replays.

    Left out are products of more than `_LONG_SECONDS` at the peak rate: repeated without a pause they kept the boards at their
    limit of 700 W and at 1.4 to 1.7 GHz, while in networks these drew 300 to 600 W at 1.98 GHz.
    """
    for card, line in _kernels(path):
        row = _measurement(card, line, "low")
        work = row.work[0]
        is_fit = _is_fit(work, row.processor) if isinstance(work, Product) else line["op"] in _ELEMENTWISE or _is_family(work)
        if is_fit:
            yield row


def _is_family(work: Work) -> bool:
    return not isinstance(work, StreamedBytes) or work.family != "elementwise"


def _is_fit(work: Product, processor: Processor) -> bool:
    is_kind = work.family == "product" or work_family(work, processor).startswith("wide")
    if not is_kind or rearranged_passes(work, processor) * work.rearranged_bytes:
        return False
    return work.operations / processor.rate(work.arithmetic) < _LONG_SECONDS


def _kernels(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((card, line) for card, line in read_lines(path) if line["op"] not in _NOT_KERNELS)


def _measurement(card: str, line: Mapping[str, Any], figure: str) -> Measurement:
    sizes = json.dumps({name: value for name, value in line.items() if name in _SIZES})
    return Measurement((_work(line),), gpu_processor(GPU_MODELS[card]), 0.0, line[figure], card, "recorded", sizes)


def read_published(path: Path = PUBLISHED) -> Iterator[Measurement]:
    """Products of which a source has operations per second.

    Left out are those that fit the cache and compute for less than twice as long as they move: who measures multiplies the
    same matrices again and again, and so reads them from there.
    """
    for row in read_table(path):
        processor = gpu_processor(GPU_MODELS[row["device"]])
        arithmetic = _ARITHMETICS[row["arithmetic"]]
        work = _product(1, int(row["m"]), int(row["n"]), int(row["k"]), arithmetic)
        is_moving = 2 * work.moved_bytes / processor.bandwidth > work.operations / processor.rate(arithmetic)
        if is_moving and work.moved_bytes < processor.cache_bytes:
            continue
        seconds = work.operations / (float(row["tflops"]) * 1e12)
        sizes = f"matmul {row['m']} {row['n']} {row['k']}"
        yield Measurement((work,), processor, 0.0, seconds, row["device"], row["source"], sizes)


def read_judged(path: Path = JUDGED) -> Iterator[Measurement]:
    """Published products that no constant is fitted to; the matrices are those of rows, so a plain product's.

    XLA's profiler adds its launch.  Its rows of float8 on an H100 are left out of the file: up to 2,600 of 1,979 TFLOP/s.
    """
    for row in read_table(path):
        arithmetic = _ARITHMETICS[row["arithmetic"]]
        batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
        work = _product(batch, m, n, k, arithmetic)._replace(crosswise=1)
        launch = LAUNCHES["XLA"] if row["source"].startswith("openxla") else 0.0
        seconds = work.operations / (float(row["tflops"]) * 1e12)
        processor = gpu_processor(GPU_MODELS[row["device"]])
        yield Measurement((work,), processor, launch, seconds, row["device"], row["source"], f"matmul {batch} {m} {n} {k}")


_SIZES = frozenset(["op", "batch", "m", "n", "k", "c", "h", "w", "fh", "fw", "stride", "elements", "rows", "columns", "bytes"])
_ARITHMETICS: Mapping[str, Arithmetic] = {name: name for name in get_args(Arithmetic)}


def _product(batch: int, m: int, n: int, k: int, arithmetic: Arithmetic) -> Product:
    """The sum of float8 products has two bytes, that of int8 four."""
    size = _BYTES[arithmetic]
    product = matrix_product(batch, m, n, k, arithmetic, size)
    more = (_RESULT_BYTES.get(arithmetic, size) - size) * batch * m * n
    return product._replace(moved_bytes=product.moved_bytes + more)


def _work(line: Mapping[str, Any]) -> Work:
    op = line["op"]
    if op == "matmul":
        product = _product(line["batch"], line["m"], line["n"], line["k"], _ARITHMETICS[line["arithmetic"]])
        return product._replace(crosswise=(line["layout"][0] == "T") + (line["layout"][1] == "N"))
    if op == "conv":
        names = ("n", "c", "h", "w", "k", "fh", "fw", "stride", "stride", "oh", "ow", "groups")
        convolution = Convolution._make([line[name] for name in names])
        arithmetic = _ARITHMETICS[line["arithmetic"]]
        direction, apart = _DIRECTIONS[line["direction"]], not line["channels_last"]
        if line["groups"] == line["c"] == line["k"]:
            return convolution.depthwise_work(direction, _BYTES[arithmetic], has_channels_apart=apart)
        return convolution.work(direction, arithmetic, _BYTES[arithmetic], has_channels_apart=apart)
    if op in _ROWS:
        return Rows(op, line["rows"], line["columns"], _BYTES[line["type"]])
    if op.startswith("batch normalization") and not line["channels_last"]:
        return Rows(f"{op} of planes", line["c"], line["n"] * line["h"] * line["w"], _BYTES[line["type"]])
    if op in _ROW_REDUCTIONS:
        return Rows("reduction of rows", line["rows"], line["columns"], _BYTES[line["type"]])
    if op == "mean of images" and not line["channels_last"]:
        return Rows("reduction of rows", line["n"] * line["c"], line["h"] * line["w"], _BYTES[line["type"]])
    if op in _REDUCTIONS:
        return StreamedBytes("reduction", float(line["bytes"]))
    if op in _PLACED:
        return StreamedBytes("indexed", float(line["bytes"]), _PLACED[op] * line["rows"] * line["columns"])
    family = op.replace("max ", "").replace("average ", "") if op in _STREAMED else "elementwise"
    return StreamedBytes(family, float(line["bytes"]))
