"""Published steps on several GPUs beside graphs that `parallelize` rewrites for them: TensorFlow's page of 2017.

A network is written as a user writes it: a forward pass, variables, and an entry `train`.  It is rewritten with the row's
strategy, and simulated on the row's machine.  The images are made on each GPU, as the page's synthetic ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from placesim.formats.device_annotations import assign_devices
from placesim.formats.sources.loading import LoadedGraph, load
from placesim.graph.session_steps import GraphFile
from placesim.machine.options import make_options
from placesim.planning.strategies.rewriting import Strategy, rewrite_training
from placesim.prediction.cost_formulas import Prediction
from placesim.prediction.simulated_steps import SimulatedStep
from placesim.prediction.step_tasks import StepCosts
from placesim.runtime.recording.recorder import Execution
from placesim.studies.time_study import dry_run_steps
from tests.benchmarks.network_rows import NetworkRow, NetworkRun, ScaledRow
from tests.benchmarks.network_tape import Layout, Numerics, Tape, Tensor
from tests.benchmarks.networks import architecture, logits_of
from tests.benchmarks.scaling import EXPECTED_SLOWEST, MACHINES, NVLINK_SHARE, PCIE_SHARE, SPREAD_OF_BOARDS, Sharing

LARGEST = 8
"""GPUs of one host; steps over several hosts have no rewrite here."""
STRATEGIES: Mapping[Sharing, Mapping[str, Any]] = {
    "ps on cpu": {},
    "ps on gpu": {},
    "replicated": {"variables": "mirrored"},
    "nccl": {"variables": "mirrored", "reduce": "nccl"},
}
"""Settings of `parallelize` for each of the page's ways to share variables."""
_ON_GPUS = ("ps on gpu", "replicated")
"""Their variables, or their sums of gradients, go to one GPU after the other in place of the CPU."""
_CUBE_MESH = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 4), (1, 5), (2, 6), (3, 7))
"""Pairs of a DGX-1's first four GPUs with an NVLink, and their links to the other four, which have the same pairs."""


class StrategyTime(NamedTuple):
    """A row on several GPUs: its speed-up over one GPU, measured and predicted."""

    row: ScaledRow
    sharing: Sharing
    measured: float
    predicted: float

    @property
    def seconds(self) -> float:
        """The prediction, as errors of other tables call it."""
        return self.predicted


class WrittenTape(Tape):
    """A forward pass without gradients, for a graph file with an entry `train`."""

    def __init__(self, images: tuple[int, ...], layout: Layout, variable_device: str) -> None:
        super().__init__(images, layout, Numerics(), is_training=True)
        self._variable_device = variable_device
        # of the labels, so that each GPU makes its own
        self._nodes = [
            {"op": "Placeholder", "name": "labels", "dtype": "int64", "shape": [images[0]]},
            {"op": "Cast", "name": "numbers", "inputs": ["labels"], "attrs": {"DstT": "float32"}},
            {"op": "Reshape", "name": "pixels", "inputs": ["numbers", [-1, 1, 1, 1]]},
            {"op": "Const", "name": "zeros", "value": 0.0, "dtype": "float32", "shape": self._physical((1, *images[1:]))},
            {"op": "AddV2", "name": "images", "inputs": ["pixels", "zeros"]},
        ]
        self.input = Tensor("images", images, "float32")

    def _weights(self, dims: tuple[int, ...], stem: str, dtype: str = "") -> tuple[str, Callable[[str], None]]:
        self.parameters += prod(dims)
        name = self._name(stem)
        entry = {"variable": name, "shape": list(dims), "initializer": "zeros"}
        self._nodes.append(entry | ({"device": self._variable_device} if self._variable_device else {}))
        return name, lambda gradient: None

    def _record(self, result: Tensor, backward: Callable[[str], None]) -> Tensor:
        return result

    def document(self, logits: Tensor) -> dict[str, Any]:
        """The graph file: a step that trains."""
        rows = logits.dims[0]
        optimizer = {"GradientDescent": {"learning_rate": 0.1}}
        nodes = [
            *self._nodes,
            {"op": "SparseSoftmaxCrossEntropyWithLogits", "name": "errors", "inputs": [logits.name, "labels"]},
            {"op": "Mean", "name": "loss", "inputs": ["errors", [0]]},
            {"train": {"minimize": "loss", "optimizer": optimizer}, "name": "train"},
            {"initializer": "init"},
        ]
        feed = {"labels": {"zeros": [rows]}}
        return {"nodes": nodes, "run": [{"fetch": ["init"]}, {"fetch": ["loss", "train"], "feed": feed}]}


def machine_document(machine: str, model: str, gpus: int) -> dict[str, Any]:
    """The devices and links of one of `MACHINES`, with the rates that transfers reach."""
    host = MACHINES[machine]
    pcie = {"bandwidth": 16 * 8e9 * 128 / 130 / 8 * PCIE_SHARE, "latency": "2.5us"}
    links = [{"between": [f"GPU:{gpu}", f"switch:{gpu // host.gpus_by_switch}"], **pcie} for gpu in range(gpus)]
    switches = range(-(-gpus // host.gpus_by_switch))
    links += [{"between": [f"switch:{number}", "host"], **pcie} for number in switches]
    if host.nvlink:
        nvlink = {"bandwidth": host.nvlink * NVLINK_SHARE, "latency": "2us"}
        pairs = (*_CUBE_MESH, *((first + 4, second + 4) for first, second in _CUBE_MESH if second < 4))
        links += [{"between": [f"GPU:{a}", f"GPU:{b}"], **nvlink} for a, b in pairs if max(a, b) < gpus]
    return {"devices": {"cpu": 1, "gpu": {"count": gpus, "model": model}}, "links": links}


def written_network(run: NetworkRun, sharing: Sharing, machine: str, model: str, gpus: int) -> LoadedGraph:
    """The network for the batches of all GPUs, on a machine with these."""
    found = architecture(run.network)
    assert found is not None
    side = run.pixels or found.pixels
    device = "/cpu:0" if sharing == "ps on cpu" and gpus == 1 else ""
    tape = WrittenTape((run.batch * gpus, side, side, 3), run.layout, device)
    document = tape.document(logits_of(found, tape)) | machine_document(machine, model, gpus)
    loaded = load(document, run.network, make_options({}))
    if loaded.error is not None:
        raise loaded.error
    return loaded


def strategy_seconds(run: NetworkRun, sharing: Sharing, machine: str, model: str, gpus: int) -> float:
    """The time of a step on so many GPUs, of which the slowest is waited for."""
    loaded = written_network(run, sharing, machine, model, gpus)
    assert loaded.file is not None
    file = loaded.file
    if gpus > 1:
        file = rewrite_training(file, Strategy(replicas=gpus, **STRATEGIES[sharing])).file
        file = spread_over_gpus(file, gpus) if sharing in _ON_GPUS else file
    walked = dry_run_steps(replace(loaded, file=file, text=None), make_options({"inter_op_threads": 16}))
    step = [_without_inputs(execution) for execution in walked.steps[-1]]
    pace = 1 + SPREAD_OF_BOARDS * EXPECTED_SLOWEST[gpus]
    streams = {place.gpu.compute for place in walked.machine.places.values() if place.gpu is not None}
    placed = [
        cost._replace(predicted=Prediction(*(pace * seconds for seconds in cost.predicted)))
        if cost.resource in streams
        else cost
        for cost in StepCosts(walked.machine).placed(step)
    ]
    return SimulatedStep(step, placed, walked.machine).seconds


def _without_inputs(execution: Execution) -> Execution:
    """The execution; the node that makes images of labels does not wait for these, which queue behind variables."""
    is_first = execution.site is not None and execution.site.name.rpartition("/")[2] == "numbers"
    return execution._replace(sources=()) if is_first else execution


def spread_over_gpus(file: GraphFile, gpus: int) -> GraphFile:
    """The file with each variable of the CPU, the mean of its gradients and its update on the GPU that holds least so far."""
    held, owners = [0] * gpus, dict[str, int]()
    for node in file.graph.nodes:
        if node.name.startswith("average/") and node.name.endswith("/sum"):
            name = node.name.removeprefix("average/").removesuffix("/sum")
            dims = file.graph.node(name).attrs["shape"].dims
            owners[name] = held.index(min(held))
            held[owners[name]] += prod(dims)
    devices = {}
    for node in file.graph.nodes:
        name = node.name.removeprefix("average/").removeprefix("train/update_")
        owner = owners.get(name, owners.get(name.rpartition("/")[0]))
        if owner is not None and "CPU" in node.device:
            devices[node.name] = f"/device:GPU:{owner}"
    return assign_devices(file, devices)


def predict_strategies(rows: Sequence[NetworkRow | ScaledRow], sharing_of: Callable[[str], Sharing]) -> list[StrategyTime]:
    """Each row on 2 to 8 GPUs of one host that has one of the same machine, network and batch on a single GPU."""
    single = {(row.run, row.variant): row for row in rows if isinstance(row, NetworkRow)}
    scaled = [row for row in rows if isinstance(row, ScaledRow) and row.gpus <= LARGEST and (row.run, row.variant) in single]
    known: dict[tuple[object, ...], float] = {}
    found = []
    for number, row in enumerate(scaled):
        sharing, one = sharing_of(row.variant), single[row.run, row.variant]
        if sharing not in STRATEGIES:
            continue
        machine = next(name for name in ("DGX-1", "GCE", "EC2") if row.variant.startswith(name))

        def seconds(gpus: int, row: ScaledRow = row, sharing: Sharing = sharing, machine: str = machine) -> float:
            key = row.run, sharing, machine, gpus
            if key not in known:
                known[key] = strategy_seconds(row.run, sharing, machine, single[row.run, row.variant].model.name, gpus)
            return known[key]

        predicted = row.gpus * seconds(1) / seconds(row.gpus)
        found.append(StrategyTime(row, sharing, row.gpus * one.seconds / row.seconds, predicted))
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(scaled)} steps on several GPUs", end="", file=sys.stderr)
    return found
