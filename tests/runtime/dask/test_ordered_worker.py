"""Workers run what is ready, and what can be seen of an order is that of one process: errors, state, what is printed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import DefectError
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Config, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.kernel import Trait
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.executors import program
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.dask.law import Case, in_a_fixed_order
from tests.runtime.dask.test_law import CPU, GPU, case_of, const, held
from tests.runtime.dask.workers import open_session

DEVICES = (CPU, GPU)
SIDE = 300
"""A product of such matrices takes about a millisecond, as a tensor does from worker to worker, and they are large enough to be
lent."""


def random_nodes(random: Random, failures: int) -> list[dict[str, Any]]:
    """Chains over both devices, some of them slow, with nodes that fail, variables that several nodes race for, and prints."""
    nodes: list[dict[str, Any]] = [const("start", [[0.5] * SIDE] * SIDE, DEVICES[0]), const("zero", [[0.0]], DEVICES[0])]
    values = ["start"]

    def add(op: str, name: str, inputs: list[str], after: str | None = None, **attrs: Any) -> None:
        device = DEVICES[0] if op == "Print" else random.choice(DEVICES)  # it has no kernel on GPUs
        entry: dict[str, Any] = {"op": op, "name": name, "inputs": inputs, "device": device, "attrs": attrs}
        nodes.append(entry | ({"control_inputs": [after]} if after else {}))

    for device in DEVICES:
        variable = {"op": "VariableV2", "attrs": {"shape": [], "dtype": "float"}, "device": device}
        nodes.append({"name": f"v{device[1]}", **variable})
        nodes.append(const(f"one{device[1]}", 1.0, device))
    for i in range(14):
        before = random.choice(values)
        kind = random.choice(("slow", "slow", "quick", "quick", "count", "print"))
        if kind == "slow":
            add("MatMul", f"n{i}", [before, random.choice(values)])
        elif kind == "quick":
            add("Tanh", f"n{i}", [before])
        elif kind == "count":  # nothing orders them among each other
            letter = random.choice("cg")
            add("AssignAdd", f"count{i}", [f"v{letter}", f"one{letter}"], before)
            nodes[-1]["device"] = next(name for name in DEVICES if name[1] == letter)
            add("Print", f"saw{i}", [f"count{i}", f"count{i}"], message=f"{i}: ")
            continue
        else:
            add("Print", f"n{i}", [before, before], message=f"{i}: ", summarize=1)
        values.append(f"n{i}")
    for i in range(failures):
        add("MatrixInverse", f"fails{i}", ["zero"], random.choice(values))
    return nodes


def initialized(nodes: list[dict[str, Any]], steps: int) -> Case:
    """First the variables get values, then all the rest is run."""
    nodes = [*nodes]
    for device in DEVICES:
        nodes.append(
            {"op": "Assign", "name": f"init{device[1]}", "inputs": [f"v{device[1]}", f"one{device[1]}"], "device": device}
        )
    case = in_a_fixed_order(case_of(nodes))
    read = {source for entry in nodes for source in entry.get("inputs", ())}
    rest = tuple(Fetch(entry["name"]) for entry in nodes if entry["name"] not in read and not entry["name"].startswith("init"))
    return case._replace(steps=(GraphStep((Fetch("initc"), Fetch("initg"))), *[GraphStep(rest)] * steps))


@pytest.mark.parametrize("seed", range(24))
def test_of_several_errors_the_one_of_one_process_is_told(seed: int, workers: Cluster, tmp_path: Path) -> None:
    found = held(initialized(random_nodes(Random(seed), failures=2), 1), workers, tmp_path)
    error = next(entry for entry in found if isinstance(entry, tuple))
    assert error[2] in ("fails0", "fails1"), error


def test_an_error_that_comes_first_in_the_order_is_told_although_it_happens_last(workers: Cluster, tmp_path: Path) -> None:
    """One node waits for a slow product of the other worker; the other, behind it in the order, fails at once."""
    nodes = [const("many", [[0.5] * SIDE] * SIDE, CPU), const("zero", [[0.0]], GPU), const("here", [1.0], GPU)]
    slow = [{"op": "MatMul", "name": f"slow{i}", "inputs": [f"slow{i - 1}" if i else "many", "many"]} for i in range(12)]
    quick = [{"op": "Neg", "name": f"quick{i}", "inputs": [f"quick{i - 1}" if i else "here"]} for i in range(40)]
    nodes += [*(entry | {"device": CPU} for entry in slow), *(entry | {"device": GPU} for entry in quick)]
    for name, last in (("first", "slow11"), ("second", "quick39")):
        waiting = {"op": "Shape", "name": f"end_{name}", "inputs": [last], "device": GPU}
        failing = {"op": "MatrixInverse", "name": name, "inputs": ["zero"], "device": GPU}
        nodes += [waiting, failing | {"control_inputs": [waiting["name"]]}]
    error = held(in_a_fixed_order(case_of(nodes)), workers, tmp_path)[0]
    assert error[2] == "first"


@pytest.mark.parametrize("seed", range(100, 108))
def test_what_shares_state_keeps_its_order(seed: int, workers: Cluster, tmp_path: Path) -> None:
    found = held(initialized(random_nodes(Random(seed), failures=0), 2), workers, tmp_path)
    assert all(isinstance(entry, list) for entry in found[:3]), found[:3]


def break_next_step() -> None:
    """In a worker: what runs there next fails outside all nodes."""
    from placesim.runtime.dask import worker_session

    whole = worker_session.WorkerSession._run

    def broken(*_: Any) -> Any:
        worker_session.WorkerSession._run = whole  # type: ignore[method-assign]
        raise ValueError("broken")

    worker_session.WorkerSession._run = broken  # type: ignore[method-assign, assignment]


def test_a_worker_that_fails_outside_its_nodes_ends_the_step(workers: Cluster) -> None:
    """The other one, which waits for its tensor, is ended; both go on with the next step."""
    nodes = [const("one", [1.0], CPU), {"op": "Neg", "name": "two", "inputs": ["one"], "device": GPU}]
    case = in_a_fixed_order(case_of(nodes))
    session: Any = open_session(workers, case.file.graph, case.devices, case.config)
    cpu = next(device.name for device in case.devices if device.type == "CPU")
    step = GraphStep((Fetch("two"),))
    session.run(step)
    workers.client.run(break_next_step, workers=[session.homes[cpu]])
    with pytest.raises(DefectError, match="ValueError: broken"):
        session.run(step)
    assert session.run(step).values[0].value.tolist() == [-1.0]
    session.close()


def test_a_large_tensor_travels_as_it_is_laid_out(workers: Cluster, tmp_path: Path) -> None:
    """From the second step on in memory that both workers map: sums depend on how elements lie."""
    nodes: list[dict[str, Any]] = [
        const("shape", [600, 500], DEVICES[0]),
        {"op": "RandomUniform", "name": "r", "inputs": ["shape"], "attrs": {"dtype": "float", "seed": 1}, "device": DEVICES[0]},
        const("turned", [1, 0], DEVICES[0]),
        {"op": "Transpose", "name": "t", "inputs": ["r", "turned"], "device": DEVICES[0]},
        const("axis", [0], DEVICES[1]),
        {"op": "Sum", "name": "sum_r", "inputs": ["r", "axis"], "device": DEVICES[1]},
        {"op": "Sum", "name": "sum_t", "inputs": ["t", "axis"], "device": DEVICES[1]},
        {"op": "Neg", "name": "back", "inputs": ["t"], "device": DEVICES[1]},
        {"op": "Tanh", "name": "end", "inputs": ["back"], "device": DEVICES[0]},
    ]
    held(case_of(nodes, steps=4), workers, tmp_path)


def test_kernels_that_want_only_names_touch_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may run out of turn."""

    class Names:
        def __init__(self, node: Any) -> None:
            self.node = node.name

    monkeypatch.setattr(program, "_context", lambda graph, node, *_: Names(node))
    x, indices, one = np.ones((2, 2), np.float32), np.zeros((1, 1), np.int32), {"T": "float"}
    given: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "AddN": ([x, x], {"T": "float", "N": 2}),
        "EnsureShape": ([x], {"shape": [2, 2], "T": "float"}),
        "GatherNd": ([x, indices], {}),
        "Select": ([x > 0, x, x], one),
    }
    named = sorted(op for op, kernel in load_kernels().items() if Trait.CONTEXT_NAMES in kernel.traits)
    assert {*given, "ReluGrad"} <= {*named}
    for op in named:
        inputs, attrs = given.get(op, ([x, x], one))
        nodes: list[dict[str, Any]] = [
            {"op": "Const", "name": f"in{i}", "value": value.tolist(), "dtype": value.dtype.name.replace("float32", "float")}
            for i, value in enumerate(inputs)
        ]
        nodes.append({"op": op, "name": "it", "inputs": [f"in{i}" for i in range(len(inputs))], "attrs": attrs})
        file = graph_file_from_mapping({"nodes": nodes})
        session = GraphSession(file.graph, tuple(build_devices((TaskInventory(),))), Config())
        assert len(session.run(GraphStep((Fetch("it"),))).values) == 1, op
