"""Published planning problems: `msr/`, `stg/` and `profiles/` of a folder, as problems, and plans as `evaluate.py` reads them.

The instances are those of msr-fiddle/dnn-partitioning (MIT), the Standard Task Graph Set and RGPOS as thelonesailor/MSP holds
them (CC0), with results of others and the evaluator that scores a plan from the instance alone.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from placesim.planning.problem import Device, Objective, Plan, Problem, Task

DATA = Path(__file__).parents[3] / "shared" / "corpus" / "planning"
WHERE = """no planning problems at {}: they are the instances of github.com/msr-fiddle/dnn-partitioning, the Standard Task
Graph Set and RGPOS (both in github.com/thelonesailor/MSP); name a folder laid out as msr/, stg/, results.csv, evaluate.py"""


class Instance(NamedTuple):
    """A problem with what is known of it: the best published value, and a proven optimum or lower bound."""

    name: str
    problem: Problem
    ids: tuple[Any, ...]
    published: float | None = None
    optimum: float | None = None


def load_evaluator(folder: Path) -> ModuleType:
    """The folder's `evaluate.py`, or, where it has none, that of the shared data."""
    path = next(path for path in (folder / "evaluate.py", DATA / "evaluate.py") if path.is_file())
    spec = importlib.util.spec_from_file_location("evaluate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- msr-fiddle/dnn-partitioning --------------------------------------------------------------------------------------


def read_msr(path: Path, *, is_latency: bool, needs_contiguous: bool = False) -> Instance:
    """A graph of layers or operators; accelerators are devices of kind 0, CPUs of kind 1."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        graph = json.load(file)
    nodes, ids = graph["nodes"], tuple(node["id"] for node in graph["nodes"])
    number = {own: place for place, own in enumerate(ids)}
    makes, inputs = [0.0] * len(ids), [set[int]() for _ in ids]
    for edge in graph["edges"]:
        makes[number[edge["sourceId"]]] = edge["cost"]
        inputs[number[edge["destId"]]].add(number[edge["sourceId"]])
    groups: dict[tuple[str, int], list[int]] = {}
    tasks = []
    for place, node in enumerate(nodes):
        accelerated = node["fpgaLatency"] if node["supportedOnFpga"] else math.inf
        times = float(accelerated), float(node["cpuLatency"])
        tasks.append(Task(str(node["id"]), times, node.get("size", 0.0), makes[place], bool(node.get("isBackwardNode"))))
        colour = node.get("colorClass")
        groups.setdefault(("node", place) if colour is None else ("colour", colour), []).append(place)
    devices = [Device(f"acc{n}", 0, graph["maxSizePerFPGA"]) for n in range(graph["maxFPGAs"])]
    # where a step's latency is sought, CPUs are one pool without limit
    devices += [Device(f"cpu{n}", 1, pays=False) for n in range(1 if is_latency else graph["maxCPUs"])]
    problem = Problem(
        Objective.CALLS if is_latency else Objective.LOAD,
        tuple(tasks),
        tuple(tuple(sorted(sources)) for sources in inputs),
        tuple(map(tuple, groups.values())),
        tuple(devices),
        needs_contiguous=needs_contiguous,
    )
    return Instance(path.name.partition(".")[0], problem, ids)


def score_msr(evaluator: ModuleType, path: Path, instance: Instance, plan: Plan) -> dict[str, Any]:
    """What `evaluate.py` says of a plan."""
    devices = instance.problem.devices
    names = [devices[device].name for device in plan.devices]
    if plan.calls:
        names = [f"{name}.{call}" if name.startswith("acc") else name for name, call in zip(names, plan.calls, strict=True)]
    known, assigned = evaluator.Instance(str(path)), dict(zip(instance.ids, names, strict=True))
    if plan.calls:
        return dict(evaluator.latency(known, assigned))
    return dict(evaluator.maxload(known, assigned, instance.problem.needs_contiguous))


def published_msr(folder: Path) -> dict[tuple[str, str, bool], float]:
    """The best feasible values of `results.csv`, by objective, instance, and whether only contiguous plans count."""
    found: dict[tuple[str, str, bool], float] = {}
    path = folder / "results.csv"
    if not path.is_file():
        return found
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            text = row["value_evaluate_py"] or row["value_printed"]
            if not text or (row["feasible"] or "").startswith("no") or "expert" in row["method"]:
                continue
            is_contiguous = row["contiguous"] == "yes" or "contiguous" in row["method"]
            for key in {(row["objective"], row["instance"], False), (row["objective"], row["instance"], is_contiguous)}:
                found[key] = min(found.get(key, math.inf), float(text))
    return found


# --- Standard Task Graph Set, RGPOS -----------------------------------------------------------------------------------


def scheduling_instances(folder: Path) -> Iterator[tuple[Instance, str]]:
    """Each graph with each number of processors that a table names, and the text of its file."""
    for table, archive in (("optima.csv", "stg.tar.gz"), ("rgpos_optima.csv", "rgpos100.tar.gz")):
        if not (folder / table).is_file():
            continue
        texts = _texts(folder, archive)
        with (folder / table).open(newline="") as file:
            for row in csv.DictReader(file):
                if (text := texts.get(row["graph"])) is None:
                    raise SystemExit(f"{folder / table} names {row['graph']}, which {archive} has not")
                processors = int(row["processors"])
                proven = row.get("optimal_makespan") or (row["upper"] if row["published"] == "proven" else None)
                best = float(proven or row["upper"])
                problem = read_tasks(row["graph"], text, processors)
                name = f"{row['graph']} on {processors}"
                yield Instance(name, problem, tuple(range(len(problem.tasks))), best, float(proven) if proven else None), text


def _texts(folder: Path, archive: str) -> dict[str, str]:
    if not (folder / archive).is_file():
        return {
            str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*") if path.suffix in {".stg", ".txt"}
        }
    with tarfile.open(folder / archive) as packed:
        return {
            member.name.removeprefix("./"): io.TextIOWrapper(file).read()
            for member in packed.getmembers()
            if (file := packed.extractfile(member)) is not None
        }


def read_tasks(name: str, text: str, processors: int) -> Problem:
    """A graph in the STG format (a line a task), or RGPOS's (counts, times, edges)."""
    if name.endswith(".stg"):
        lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        rows = [list(map(int, line)) for line in lines[1:]]
        times = [row[1] for row in rows]
        inputs = [row[3 : 3 + row[2]] for row in rows]
    else:
        numbers = list(map(int, text.split()))
        count, edges = numbers[:2]
        times, inputs = numbers[3 : 3 + count], [[] for _ in range(count)]
        for place in range(3 + count, 3 + count + 2 * edges, 2):
            inputs[numbers[place + 1]].append(numbers[place])
    tasks = tuple(Task(str(place), (float(time),)) for place, time in enumerate(times))
    devices = tuple(Device(f"processor {n}", 0) for n in range(processors))
    groups = tuple((place,) for place in range(len(tasks)))
    return Problem(Objective.MAKESPAN, tasks, tuple(tuple(sorted(set(row))) for row in inputs), groups, devices)


def score_schedule(evaluator: ModuleType, problem: Problem, plan: Plan) -> dict[str, Any]:
    """What `evaluate.py` says of a schedule."""
    times = {place: int(task.seconds[0]) for place, task in enumerate(problem.tasks)}
    sources = {place: list(row) for place, row in enumerate(problem.inputs)}
    schedule = [
        {"task": task, "proc": device, "start": start}
        for task, (device, start) in enumerate(zip(plan.devices, plan.starts, strict=True))
    ]
    return dict(evaluator.makespan((times, sources, len(problem.devices), None), schedule))
