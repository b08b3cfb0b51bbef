"""Published times of whole networks -> which graph stands for each row, or why none does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from placesim.machine.gpu_models import GPU_MODELS, GpuFigures, GpuModel
from tests.benchmarks.network_tape import Layout, Numerics
from tests.benchmarks.networks import architecture
from tests.benchmarks.timing_rows import SAME_BOARD, read_table

_F32, _F16 = Numerics(), Numerics("half", "half")
_AUTOCAST = Numerics("half", "float32")


class NetworkRun(NamedTuple):
    """What ran: arguments of `networks.build`."""

    network: str
    batch: int
    is_training: bool
    has_update: bool
    layout: Layout
    numerics: Numerics
    pixels: int | None


class NetworkRow(NamedTuple):
    """A measured step on one GPU."""

    run: NetworkRun
    device: str
    model: GpuModel
    suite: str
    framework: str
    variant: str
    seconds: float

    @property
    def family(self) -> str:
        found = architecture(self.run.network)
        assert found is not None
        return found.family


class OmittedRow(NamedTuple):
    """A row that no graph stands for, and why."""

    suite: str
    why: str


class ScaledRow(NamedTuple):
    """A training step on several GPUs, of TensorFlow's own page; `variant`: the machine, its input, where variables are."""

    run: NetworkRun
    device: str
    variant: str
    gpus: int
    seconds: float


def read_networks(models: Path, devices: Path) -> Iterator[NetworkRow | ScaledRow | OmittedRow]:
    """Each row of the table of whole networks, in its order."""
    boards = {row["device"]: _board(row) for row in read_table(devices)}
    for row in read_table(models):
        yield _read(row, boards)


def _read(row: Mapping[str, str], boards: Mapping[str, GpuModel | None]) -> NetworkRow | ScaledRow | OmittedRow:
    suite = row["suite"]
    if not (row["ms"] and row["batch"]):
        return OmittedRow(suite, "no time or no batch")
    found = _run(row)
    if isinstance(found, str):
        return OmittedRow(suite, found)
    known = architecture(found.network)
    if known is None:
        return OmittedRow(suite, "a network that is not built here")
    if known.family == "Transformer" and re.search(r"pt2\d\d", row["framework"]):
        return OmittedRow(suite, "attention in one kernel")
    seconds = float(row["ms"]) * 1e-3
    if row["n_devices"] not in {"", "1"}:
        if suite != _PAGE:
            return OmittedRow(suite, "several GPUs")
        return ScaledRow(found, row["device"], row["variant"], int(row["n_devices"]), seconds)
    model = boards.get(row["device"])
    if model is None:
        return OmittedRow(suite, "no GPU of the table of devices")
    if suite == _LABELS and model.figures.tf32:
        return OmittedRow(suite, "float32 without tf32, which no graph says")
    return NetworkRow(found, row["device"], model, suite, row["framework"], row["variant"], seconds)


_PAGE, _LABELS = "TF benchmarks page", "NeuSight label"
_PAGE_NETWORKS = {"alexnet": "alexnet_tf", "resnet50": "resnet50_v1", "resnet152": "resnet152_v1"}
_CONVNET_KERNELS = re.compile(r"cudnn|tensorflow|chainer", re.IGNORECASE)


def _run(row: Mapping[str, str]) -> NetworkRun | str:
    """What the row's framework ran, or why it was no graph op by op."""
    suite, framework, name, batch = row["suite"], row["framework"], row["model"], int(row["batch"])
    trains = row["mode"] == "training"
    pixels = int(row["img"]) if row["img"].isdigit() else None
    if suite == "timm results":
        if "dynamo" in framework:
            return "compiled: ops are fused"
        layout: Layout = "NHWC" if "nhwc" in framework else "NCHW"
        numerics = {"f32": _F32, "f16": _F16, "f16 amp": _AUTOCAST}.get(row["dtype"])
        return "another type" if numerics is None else NetworkRun(name, batch, trains, trains, layout, numerics, pixels)
    if suite == "AITemplate":
        if framework != "PyTorch":
            return "compiled: ops are fused"
        if "2 GCDs" in row["variant"]:
            return "several GPUs"
        return NetworkRun(name, batch, False, False, "NCHW", _F16, pixels)
    if suite == "cnn-benchmarks":
        if "cuDNN" not in framework:
            return "kernels of its own, no cuDNN"
        return NetworkRun(name, batch, True, False, "NCHW", _F32, pixels)
    if suite == "convnet-benchmarks":
        if not _CONVNET_KERNELS.search(framework):
            return "kernels of its own, no cuDNN"
        name = {"googlenet": "googlenet_plain", "googlenet_v1": "googlenet_plain"}.get(name, name)
        return NetworkRun(name, batch, True, False, "NCHW", _F16 if row["dtype"] == "f16" else _F32, pixels)
    if suite == _PAGE:
        return NetworkRun(_PAGE_NETWORKS.get(name, name), batch, True, True, "NCHW", _F32, pixels)
    if suite == _LABELS:
        # without training, NeuSight measures BERT with two classes (`AutoModelForSequenceClassification` in its `trace.py`)
        name = name.replace("_", "-") + ("-classifier" if name.startswith("bert") and not trains else "")
        return NetworkRun(name, batch, trains, False, "NCHW", _F32, int(row["seq"]))
    return "transformers of unpublished sizes, CPUs, or unknown"


def _board(row: Mapping[str, str]) -> GpuModel | None:
    """The catalogue's model, or, for a GPU that it lacks, one of the table's figures."""
    name = SAME_BOARD.get(row["device"], row["device"])
    if name in GPU_MODELS:
        return GPU_MODELS[name]
    units, flops = row["units"].split(" ")[0], float(row["fp32_tflops"] or 0) * 1e12
    if row["kind"] != "gpu" or not (units.isdigit() and flops and row["clock_MHz"]):
        return None
    half = float(row["tensor_f16_tflops"] or 0) * 1e12
    figures = GpuFigures(float16=half, bfloat16=half, multiprocessors=int(units), clock_mhz=int(float(row["clock_MHz"])))
    stacked = row["device"].startswith("AMD") or float(row["mem_GBps"]) > 1800
    figures = figures._replace(memory_kind="stacked" if stacked else "planar")
    # AMD's have no compute capability; none of a table that is told apart by it is as old as Maxwell
    return GpuModel(name, int(float(row["mem_GB"]) * 2**30), "8.0", flops, float(row["mem_GBps"]) * 1e9, figures=figures)
