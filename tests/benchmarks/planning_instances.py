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
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from placesim.core.errors import UsageError
from placesim.planning.problem import Objective, Plan, PlanningProblem, ProblemDevice, ProblemTask

DATA = Path(__file__).parents[3] / "shared" / "corpus" / "planning"
WHERE = """no planning problems at {}: they are the instances of github.com/msr-fiddle/dnn-partitioning, the Standard Task
Graph Set and RGPOS (both in github.com/thelonesailor/MSP); name a folder laid out as msr/, stg/, results.csv, evaluate.py"""


class Instance(NamedTuple):
    """A problem with what is known of it: the best published value, and a proven optimum or lower bound."""

    name: str
    problem: PlanningProblem
    ids: tuple[Any, ...]
    published: float | None = None
    optimum: float | None = None


def load_evaluator(folder: Path) -> ModuleType:
    """The folder's `evaluate.py`, or, where it has none, that of the shared data."""
    path = next((path for path in (folder / "evaluate.py", DATA / "evaluate.py") if path.is_file()), None)
    if path is None:
        raise SystemExit(f"{folder} has no evaluate.py")
    spec = importlib.util.spec_from_file_location("evaluate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PublishedGraph(NamedTuple):
    """A file of a graph, its name in `results.csv`, and whether a step's latency is sought, as its folder says."""

    path: Path
    name: str
    is_latency: bool


# --- msr-fiddle/dnn-partitioning --------------------------------------------------------------------------------------


def msr_files(folder: Path) -> Iterator[PublishedGraph]:
    """The graphs in `msr/`, however deep and packed or not; what has no nodes is a split of one."""
    root = folder / "msr"
    for path in sorted(path for path in root.rglob("*") if path.name.endswith((".json", ".json.gz"))):
        if {"nodes", "edges", "maxFPGAs"} <= _json(path).keys():
            name = path.relative_to(root).as_posix().removesuffix(".gz").removesuffix(".json")
            yield PublishedGraph(path, name, "latency" in name)


def _json(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return dict(json.load(file))


def read_msr(path: Path, *, is_latency: bool, needs_contiguous: bool = False) -> Instance:
    """A graph of layers or operators; accelerators are devices of kind 0, CPUs of kind 1."""
    graph = _json(path)
    nodes, ids = graph["nodes"], tuple(node["id"] for node in graph["nodes"])
    number = {own: place for place, own in enumerate(ids)}
    makes, inputs = [0.0] * len(ids), [set[int]() for _ in ids]
    for edge in graph["edges"]:
        unknown = next((edge[key] for key in ("sourceId", "destId") if edge[key] not in number), None)
        if unknown is not None:
            raise UsageError(f"{path.name}: an edge names node {unknown}, which is not there")
        makes[number[edge["sourceId"]]] = edge["cost"]
        inputs[number[edge["destId"]]].add(number[edge["sourceId"]])
    groups: dict[tuple[str, int], list[int]] = {}
    tasks = []
    for place, node in enumerate(nodes):
        for key in ("supportedOnFpga", "fpgaLatency", "cpuLatency"):
            if key not in node and (key != "fpgaLatency" or node.get("supportedOnFpga")):
                raise UsageError(f"{path.name}: node {node['id']} has no '{key}'")
        accelerated = node["fpgaLatency"] if node["supportedOnFpga"] else math.inf
        times = float(accelerated), float(node["cpuLatency"])
        tasks.append(ProblemTask(str(node["id"]), times, node.get("size", 0.0), makes[place], bool(node.get("isBackwardNode"))))
        colour = node.get("colorClass")
        groups.setdefault(("node", place) if colour is None else ("colour", colour), []).append(place)
    devices = [ProblemDevice(f"acc{n}", 0, graph["maxSizePerFPGA"]) for n in range(graph["maxFPGAs"])]
    # where a step's latency is sought, CPUs are one pool without limit
    devices += [ProblemDevice(f"cpu{n}", 1, pays=False) for n in range(1 if is_latency else graph["maxCPUs"])]
    problem = PlanningProblem(
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


PROCESSORS = (2, 4, 8, 16)
"""Where no table says on how many a graph runs."""


def scheduling_instances(folder: Path) -> Iterator[Instance]:
    """Each graph with each number of processors that a table of the folder names; without a table, all graphs on `PROCESSORS`.

    A table is any CSV with the columns graph and processors; graphs lie beside it as files or in archives, packed or not.
    """
    texts = _texts(folder)
    by_name: dict[str, list[str]] = {}
    for name in texts:
        by_name.setdefault(Path(name).name, []).append(name)
    rows = [row for table in sorted(folder.glob("*.csv")) for row in _rows(table)]
    for row in rows:
        name = row["graph"]
        # a table may name folders that a copy has not
        same = [name] if name in texts else by_name.get(Path(name).name, [])
        if len(same) != 1:
            print(f"{folder}: a table names {name}, and there are {len(same)} such graphs", file=sys.stderr)
            continue
        proven = row.get("optimal_makespan") or (row.get("upper") if row.get("published") == "proven" else None)
        best = proven or row.get("upper")
        yield _scheduling(
            name, texts[same[0]], int(row["processors"]), float(best) if best else None, float(proven) if proven else None
        )
    if not rows:
        for name, text in sorted(texts.items()):
            for processors in PROCESSORS:
                yield _scheduling(name, text, processors, None, None)


def _scheduling(name: str, text: str, processors: int, best: float | None, proven: float | None) -> Instance:
    problem = read_tasks(name, text, processors)
    return Instance(f"{name} on {processors}", problem, tuple(range(len(problem.tasks))), best, proven)


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row.get("graph") and row.get("processors")]


def _texts(folder: Path) -> dict[str, str]:
    """Each graph's text by its name within the folder or the archive, without `.gz`."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if tarfile.is_tarfile(path) if path.is_file() else False:
            with tarfile.open(path) as packed:
                for member in packed.getmembers():
                    file = packed.extractfile(member)
                    if file is not None and Path(member.name).suffix in _GRAPHS:
                        found[member.name.removeprefix("./")] = io.TextIOWrapper(file).read()
            continue
        name = str(path.relative_to(folder)).removesuffix(".gz")
        if path.is_file() and Path(name).suffix in _GRAPHS and "license" not in name.lower():
            found[name] = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return found


_GRAPHS = frozenset((".stg", ".txt"))


def read_tasks(name: str, text: str, processors: int) -> PlanningProblem:
    """A graph in the STG format (a line a task), or RGPOS's (counts, times, edges)."""
    if Path(name).suffix == ".stg":
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
    tasks = tuple(ProblemTask(str(place), (float(time),)) for place, time in enumerate(times))
    devices = tuple(ProblemDevice(f"processor {n}", 0) for n in range(processors))
    groups = tuple((place,) for place in range(len(tasks)))
    return PlanningProblem(Objective.MAKESPAN, tasks, tuple(tuple(sorted(set(row))) for row in inputs), groups, devices)


def score_schedule(evaluator: ModuleType, problem: PlanningProblem, plan: Plan) -> dict[str, Any]:
    """What `evaluate.py` says of a schedule."""
    times = {place: int(task.seconds[0]) for place, task in enumerate(problem.tasks)}
    sources = {place: list(row) for place, row in enumerate(problem.inputs)}
    schedule = [
        {"task": task, "proc": device, "start": start}
        for task, (device, start) in enumerate(zip(plan.devices, plan.starts, strict=True))
    ]
    return dict(evaluator.makespan((times, sources, len(problem.devices), None), schedule))
