"""Predicted steps beside measured ones, on this machine: `python -m tests.benchmarks.calibration_bench [--profile FILE]`.

Without a profile the machine is calibrated first.  Each network is simulated with that and then run, with one and with two
threads between ops; the measured time is the median of steady steps, of which each computes op by op unless `--fusion` asks for
what a run does.  Errors are |predicted - measured| / measured.  With `--small`, twenty small networks replace the large ones.
`--nodes N` shows for each network the ops whose predicted times differ most from the measured ones.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.formats.graph_file.sections.hosts import host_text
from placesim.formats.sources.loading import load
from placesim.graph.session_steps import Feed, Fetch, GraphStep
from placesim.machine.inventory import TaskInventory, build_devices
from placesim.machine.options import SimulationOptions
from placesim.prediction.time_breakdown import TimeStudy
from placesim.runtime.executors.ordered_executor import Executor
from placesim.runtime.executors.thread_pools import ThreadPools
from placesim.runtime.sessions.session import GraphSession
from placesim.studies.calibration.host_profile import calibrate
from placesim.studies.time_study import study_time
from tests.benchmarks.models_bench import Model, alexnet, lstm, recorded, resnet50, transformer
from tests.benchmarks.small_networks import SMALL

FEWEST, SECONDS, SMALL_SECONDS = 5, 3.0, 0.7
"""Steps that are timed, and for how long there may be more, of a large and of a small network."""


def mobilenet() -> Model:
    """MobileNetV2 as Keras builds it, of one image."""
    graph = recorded("keras-mobilenet_v2-gpu1")
    placeholder = next(node for node in graph["nodes"] if node["op"] == "Placeholder")
    placeholder["attrs"]["shape"] = [1, 224, 224, 3]
    last = next(node["name"] for node in graph["nodes"] if node["op"] == "Softmax")
    feeds = {placeholder["name"]: np.random.default_rng(0).random((1, 224, 224, 3), np.float32)}
    return Model("MobileNetV2 forward, batch 1", graph, [], [f"{last}:0"], feeds)


MODELS: dict[str, Callable[[], Model]] = {
    "alexnet": lambda: alexnet("AlexNet forward, batch 16", ["fc8/xw_plus_b:0"]),
    "training": lambda: alexnet("AlexNet training step, batch 16", ["Momentum"]),
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "lstm": lstm,
    "transformer": transformer,
}


def measured(model: Model, inter_op: int, nodes: bool, fuses: bool, limit: float) -> tuple[float, dict[str, float]]:
    """(seconds of a steady step, and of the kernels of each op where these are asked for)"""
    file = graph_file_from_mapping(model.graph, model.name)
    devices = build_devices([TaskInventory()])
    config = replace(file.config, inter_op_parallelism_threads=inter_op, fuses_ops=fuses)
    session = GraphSession(file.graph, devices, config, bare_fetch_is_target=True, pools=ThreadPools())
    if model.initializers:
        session.run(GraphStep(tuple(map(Fetch, model.initializers))))
    step = GraphStep(tuple(map(Fetch, model.fetches)), tuple(Feed(*pair) for pair in model.feeds.items()))
    for _ in range(2):
        session.run(step)
    found: list[float] = []
    while len(found) < FEWEST or sum(found) < limit:
        start = time.perf_counter()
        session.run(step)
        found.append(time.perf_counter() - start)
    return median(found), _by_op(session, step) if nodes else {}


def _by_op(session: GraphSession, step: GraphStep) -> dict[str, float]:
    """The seconds inside kernels, by op; of a session that runs one node after another."""
    prepared = list(session._prepared.values())[-1]
    if not isinstance(prepared.executor, Executor):
        return {}
    seconds: dict[str, list[float]] = defaultdict(list)

    def timed(op: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = time.perf_counter()
            result = function(*args)
            seconds[op].append(time.perf_counter() - start)
            return result

        return call

    programs = prepared.executor.schedule.programs
    for program in programs:
        for instruction in program.instructions:
            kernel, op = instruction.kernel, instruction.node.op
            direct = None if kernel.direct is None else timed(op, kernel.direct)
            instruction.kernel = kernel._replace(compute=timed(op, kernel.compute), direct=direct)
    prepared.executor = Executor(programs)
    runs = 3
    for _ in range(runs):
        session.run(step)
    return {op: sum(found) / runs for op, found in seconds.items()}


def predicted(model: Model, inter_op: int, profile: Any) -> TimeStudy:
    """What `simulate` says of the same step."""
    steps: list[dict[str, Any]] = [{"fetch": list(model.initializers)}] if model.initializers else []
    feeds = {name: value for name, value in model.feeds.items() if value.dtype.kind in "iu"}
    steps.append({"fetch": list(model.fetches), "feed": feeds})
    graph = {**model.graph, "run": steps}
    shapes = {name: value.shape for name, value in model.feeds.items() if name not in feeds}
    options = SimulationOptions(profile=profile, shape=shapes, inter_op_threads=inter_op, gpu=0)
    return study_time(load(graph, model.name), options, model.name)


def show_ops(study: TimeStudy, found: dict[str, float], number: int) -> None:
    """The ops that differ most."""
    foretold: dict[str, float] = defaultdict(float)
    for node in study.nodes:
        foretold[node.op] += node.seconds
    ops = sorted({*found, *foretold}, key=lambda op: -abs(foretold[op] - found.get(op, 0.0)))
    for op in ops[:number]:
        print(f"    {op:32} {1e3 * foretold[op]:10.3f} ms predicted {1e3 * found.get(op, 0.0):10.3f} ms measured")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", help="what `placesim calibrate` wrote")
    parser.add_argument("--model", action="append", choices=sorted({**MODELS, **SMALL}), help="one of them; may be repeated")
    parser.add_argument("--small", action="store_true", help="small networks")
    parser.add_argument("--threads", type=int, action="append", help="threads between ops; may be repeated")
    parser.add_argument("--fusion", action="store_true", help="measure steps that compute several ops together")
    parser.add_argument("--nodes", type=int, default=0, help="ops to show of each network")
    options = parser.parse_args(arguments)
    text = Path(options.profile).read_text() if options.profile else host_text(calibrate())
    profile = yaml.safe_load(text)
    errors, held = [], 0
    print(f"{'network':50} threads   predicted              low        high    measured   error")
    for name in options.model or (SMALL if options.small else MODELS):
        for inter_op in options.threads or (1, 2):
            model = (MODELS | SMALL)[name]()
            study = predicted(model, inter_op, profile)
            limit = SMALL_SECONDS if name in SMALL else SECONDS
            seconds, by_op = measured(model, inter_op, bool(options.nodes), options.fusion, limit)
            step = study.steps[-1]
            held += step.low <= seconds <= step.high
            error = (step.seconds - seconds) / seconds
            errors.append(abs(error))
            times = "  ".join(f"{1e3 * value:8.2f} ms" for value in (step.seconds, step.low, step.high, seconds))
            print(f"{model.name:50} {inter_op:7}   {times}  {error:+7.1%}", flush=True)
            if options.nodes and by_op:
                show_ops(study, by_op, options.nodes)
    told = f"median {median(errors):.1%}, largest {max(errors):.1%}"
    print(f"errors: {told}; {held} of {len(errors)} in the interval")


if __name__ == "__main__":
    main()
