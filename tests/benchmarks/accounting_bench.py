"""What accounting for memory adds to a step.

`python -m tests.benchmarks.accounting_bench` prints ratios; both sides of each are measured in this run, in turns.  The
machine's only device is a GPU of a size that a step may or may not be known to fit into: where it is, only the first of steps
that are alike is accounted for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.runtime.accounting.ledger_setup import build_ledger
from placesim.runtime.sessions.session import GraphSession
from tests.benchmarks.executor_bench import NODES
from tests.benchmarks.models_bench import Model, alexnet, lstm, transformer

TIMES = 7


def adds() -> Model:
    """A chain of scalar adds."""
    nodes: list[Any] = [{"op": "Const", "name": "one", "value": 1.0}, {"op": "Const", "name": "n0", "value": 0.0}]
    nodes += [{"op": "AddV2", "name": f"n{i}", "inputs": [f"n{i - 1}", "one"]} for i in range(1, NODES + 1)]
    return Model(f"{NODES:,} scalar adds", {"nodes": nodes}, [], [f"n{NODES}:0"], {})


def loop(turns: int = 10_000) -> Model:
    """A while loop over a counter and a small matrix."""
    frame = {"frame_name": "loop"}
    nodes: list[Any] = [
        {"op": "Const", "name": "zero", "value": 0, "dtype": "int32"},
        {"op": "Const", "name": "x0", "value": 1.0, "shape": [8, 8]},
        {"op": "Enter", "name": "enter_i", "inputs": ["zero"], "attrs": frame},
        {"op": "Enter", "name": "enter_x", "inputs": ["x0"], "attrs": frame},
        {"op": "Merge", "name": "i", "inputs": ["enter_i", "next_i"]},
        {"op": "Merge", "name": "x", "inputs": ["enter_x", "next_x"]},
        {"op": "Const", "name": "turns", "value": turns, "dtype": "int32", "inputs": ["^i"]},
        {"op": "Const", "name": "one", "value": 1, "dtype": "int32", "inputs": ["^i"]},
        {"op": "Less", "name": "goes_on", "inputs": ["i", "turns"]},
        {"op": "LoopCond", "name": "cond", "inputs": ["goes_on"]},
        {"op": "Switch", "name": "switch_i", "inputs": ["i", "cond"]},
        {"op": "Switch", "name": "switch_x", "inputs": ["x", "cond"]},
        {"op": "AddV2", "name": "i_plus", "inputs": ["switch_i:1", "one"]},
        {"op": "Tanh", "name": "x_tanh", "inputs": ["switch_x:1"]},
        {"op": "NextIteration", "name": "next_i", "inputs": ["i_plus"]},
        {"op": "NextIteration", "name": "next_x", "inputs": ["x_tanh"]},
        {"op": "Exit", "name": "exit_x", "inputs": ["switch_x:0"]},
    ]
    return Model(f"loop of {turns:,} turns", {"nodes": nodes}, [], ["exit_x:0"], {})


def open_session(model: Model, is_accounted: bool) -> tuple[GraphSession, GraphStep]:
    """A session with its variables initialised, and the step to measure."""
    file = graph_file_from_mapping(model.graph, model.name)
    devices = build_devices(file.inventory or [TaskInventory()])
    ledger = build_ledger(devices) if is_accounted else None
    session = GraphSession(file.graph, devices, file.config, bare_fetch_is_target=True, ledger=ledger)
    if model.initializers:
        session.run(GraphStep(tuple(map(Fetch, model.initializers))))
    return session, GraphStep(tuple(map(Fetch, model.fetches)), tuple(Feed(*pair) for pair in model.feeds.items()))


def forget_that_it_fits(session: GraphSession) -> None:
    """Let the next step be accounted for, though it is like one that was."""
    for prepared in session._prepared.values():
        prepared.settled = None


def alternate(runs: Sequence[Callable[[], object]], times: int) -> list[float]:
    """The shortest of several runs of each, in seconds, taken in turns."""
    found = [float("inf")] * len(runs)
    for _ in range(times):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            run()
            found[number] = min(found[number], time.perf_counter() - start)
    return found


def measure(model: Model, times: int = TIMES) -> None:
    """Print a model's row: a step without a ledger, one that is accounted for, and one that is known to fit."""
    bare, step = open_session(model, is_accounted=False)
    accounted, _ = open_session(model, is_accounted=True)
    settled, _ = open_session(model, is_accounted=True)

    def run_accounted() -> None:
        forget_that_it_fits(accounted)
        accounted.run(step)

    runs = (lambda: bare.run(step), run_accounted, lambda: settled.run(step))
    for run in runs:
        run()
    without, each, known = alternate(runs, times)
    print(
        f"{model.name:34} without {without * 1e3:8.1f} ms   each step {each * 1e3:8.1f} ms, ratio {each / without:.2f}"
        f"   steady {known * 1e3:8.1f} ms, ratio {known / without:.2f}"
    )


def main() -> None:
    measure(adds())
    measure(loop(), 3)
    measure(alexnet("AlexNet forward, batch 16", ["fc8/xw_plus_b:0"]), 5)
    measure(alexnet("AlexNet training step, batch 16", ["Momentum"]), 3)
    measure(lstm(), 5)
    measure(transformer(), 5)


if __name__ == "__main__":
    main()
