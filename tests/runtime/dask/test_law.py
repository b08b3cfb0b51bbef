"""What runs on two workers gives what it gives in one process, to the last bit; `tests/runtime/dask/law.py` holds more to
it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placesim.core.errors import UnimplementedError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.cluster.device_assignment import DeviceMove
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.dask.law import GRAPHS, Case, fixed_seeds, graph_case, outcome, recorded_cases
from tests.runtime.dask.workers import open_session, settled

SLOW = ("alexnet", "cifar10-towers")
# fmt: off
RECORDED = (
    "cpu3-gpu2", "mlp-adam-res", "cifar-2-res", "while-grad", "cond-gpu", "dataset", "queue", "saver-res", "embedding",
    "strings", "devfn", "nested", "mapfn", "defun", "ps-2-2", "ps-res", "f-cond-nested", "f-while-body", "f-while-grad",
    "f-call-dev", "f-call-inner", "f-dataset-map", "f-resource-cpu", "f-rnn",
)
# fmt: on


@pytest.fixture(autouse=True)
def _fixed_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", secrets.randbits)
    fixed_seeds()


def held(case: Case, workers: Cluster, folder: Path) -> list[Any]:
    """What a case gives, the same on two workers."""
    here = outcome(case, GraphSession, folder)
    assert outcome(case, partial(open_session, workers), folder) == here
    return here


@pytest.mark.parametrize("path", [path for path in GRAPHS if path.stem not in SLOW], ids=lambda path: path.stem)
def test_a_graph(path: Path, workers: Cluster, tmp_path: Path) -> None:
    held(graph_case(path), workers, tmp_path)


def test_recorded_models(workers: Cluster, tmp_path: Path) -> None:
    cases = {case.name: case for case in recorded_cases() if case.name in RECORDED}
    assert set(cases) == set(RECORDED)
    for case in cases.values():
        held(case, workers, tmp_path)


def case_of(nodes: list[dict[str, Any]], steps: int = 1, gpus: int = 1) -> Case:
    """Nodes on a CPU and GPUs, all of whose ends are fetched."""
    file = graph_file_from_mapping({"nodes": nodes}, "nodes")
    return Case("nodes", file, tuple(build_devices((TaskInventory(gpu=gpus),))), file.config, (GraphStep(),) * steps, Path())


CPU, GPU, OTHER = "/cpu:0", "/gpu:0", "/gpu:1"


def const(name: str, value: Any, device: str, **more: Any) -> dict[str, Any]:
    return {"op": "Const", "name": name, "value": value, "device": device, **more}


def test_the_first_of_several_errors_is_the_steps(workers: Cluster, tmp_path: Path) -> None:
    """In one process the nodes of the first device come first, whoever is faster here; what is printed behind is not."""
    for first, second in ((CPU, GPU), (GPU, CPU)):
        nodes = [const("nan", [float("nan")], CPU), const("first", [1.0], first), const("text", "said", CPU)]
        for name, device, message in (("one", first, "one"), ("two", second, "two")):
            attrs = {"message": message}
            nodes.append({"op": "CheckNumerics", "name": name, "inputs": ["nan"], "device": device, "attrs": attrs})
        nodes.append({"op": "PrintV2", "name": "before", "inputs": ["text"], "device": CPU})
        nodes.append({"op": "PrintV2", "name": "behind", "inputs": ["text"], "device": CPU, "control_inputs": ["two"]})
        error, printed, *_ = held(case_of(nodes), workers, tmp_path)
        assert error[0] == "InvalidArgumentError"
        assert error[2] in ("one", "two")
        assert printed[1] in ("", "said\n")


def test_what_ops_print_is_in_order(workers: Cluster, tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [const("x0", [1.0], CPU)]
    for i in range(6):
        device = CPU if i % 2 else GPU
        nodes.append({"op": "AddV2", "name": f"s{i}", "inputs": [f"x{i}", f"x{i}"], "device": device})
        nodes.append(
            {
                "op": "Print",
                "name": f"x{i + 1}",
                "inputs": [f"s{i}", f"s{i}"],
                "attrs": {"message": f"{i}: "},
                "device": CPU,
            }
        )
    found = held(case_of(nodes, steps=2), workers, tmp_path)
    printed = next(entry for entry in found if isinstance(entry, tuple) and len(entry) == 2)[1]
    assert printed == "".join(f"{i}: [{2 ** (i + 1)}]\n" for i in range(6)) * 2


def test_a_generator_goes_on_where_it_was(workers: Cluster, tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [
        const("shape", [3], CPU),
        {"op": "RandomUniform", "name": "r", "inputs": ["shape"], "attrs": {"dtype": "float", "seed": 1}, "device": GPU},
        {"op": "Neg", "name": "n", "inputs": ["r"], "device": OTHER},
    ]
    one, two, *_ = held(case_of(nodes, steps=2, gpus=2), workers, tmp_path)
    assert one != two


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e5m2", "int4", "complex64", "string", "bool"])
def test_every_kind_of_tensor_travels(kind: str, workers: Cluster, tmp_path: Path) -> None:
    value: Any = ["a", "", "bc"] if kind == "string" else [True, False, True] if kind == "bool" else [1, 2, 3]
    nodes = [
        const("c", value, CPU, dtype=kind),
        {"op": "Identity", "name": "there", "inputs": ["c"], "device": "/cpu:1"},
        {"op": "Identity", "name": "back", "inputs": ["there"], "device": CPU},
    ]
    file = graph_file_from_mapping({"nodes": nodes}, "nodes")
    case = Case("kinds", file, tuple(build_devices((TaskInventory(cpu=2),))), file.config, (GraphStep(),), Path())
    held(case, workers, tmp_path)


def test_devices_that_a_function_keeps_state_on_share_a_worker(workers: Cluster) -> None:
    (case,) = (case for case in recorded_cases() if case.name == "f-resource-cpu")
    names = [device.name for device in case.devices]
    apart = settled(workers, case.devices)
    told: list[DeviceMove] = []
    session = open_session(workers, case.file.graph, case.devices, case.config, tell=told.append)
    for step in case.steps:
        session.run(step)
    session.close()
    assert told == [DeviceMove(names[1], apart.homes[names[1]], apart.homes[names[0]])]
    # who said where devices live has them there
    hard = replace(case.config, allow_soft_placement=False)
    session = open_session(replace(workers, is_own=False), case.file.graph, case.devices, hard, tell=told.append)
    for step in case.steps[:-2]:
        session.run(step)
    with pytest.raises(
        UnimplementedError, match="AssignAddVariableOp}} of function __inference_g_570 keeps state on"
    ) as caught:
        session.run(case.steps[-1])
    session.close()
    assert caught.value.help == ("assign both devices to one worker (`--worker`), or run in one process",)
    assert len(told) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_folded_constants(threads: int, workers: Cluster, tmp_path: Path) -> None:
    nodes = [
        const("a", [[4.0, 9.0]] * 2, CPU),
        {"op": "Sqrt", "name": "root", "inputs": ["a"], "device": CPU},
        {"op": "MatMul", "name": "far", "inputs": ["root", "root"], "device": GPU},
        {"op": "Tanh", "name": "here", "inputs": ["root"], "device": CPU},
        {"op": "RandomUniform", "name": "random", "inputs": [[2, 2]], "attrs": {"dtype": "float32"}, "device": CPU},
        {"op": "AddV2", "name": "sum", "inputs": ["far", "random"], "device": GPU},
        {"op": "MatMul", "name": "product", "inputs": ["sum", "here"], "device": CPU},
    ]
    case = case_of(nodes, steps=3)
    config = replace(case.config, inter_op_parallelism_threads=threads, do_constant_folding=True)
    plain = held(case._replace(config=replace(config, do_constant_folding=False)), workers, tmp_path)
    assert held(case._replace(config=config), workers, tmp_path) == plain
    nodes.append({"op": "FloorDiv", "name": "fails", "inputs": [[1], [0]], "device": GPU})
    assert held(case_of(nodes)._replace(config=config), workers, tmp_path)[0][0] == "InvalidArgumentError"
