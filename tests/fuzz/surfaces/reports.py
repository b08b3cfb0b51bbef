"""Reports, measurements, policies, inventories, feeds and `.npy` files, changed and given to the commands that read them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np

from placesim import PlacesimError, place, run
from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.report.report import Report
from placesim.report.text.timing import time_document
from placesim.report.trace_json import trace_events
from placesim.studies.time_study import study_time
from tests.fuzz.corpus import examples
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import dump, mutate_bytes, mutate_text, mutate_tree, odd_text, odd_value, parse
from tests.fuzz.surfaces.command_lines import OPTIONS, STEP_SECONDS, command_line
from tests.processes import ROOT

_GRAPH = b"""devices: {cpu: 2, gpu: 2}
nodes:
  - {op: Placeholder, name: x, dtype: float}
  - {variable: v, shape: [2], initializer: ones, device: /cpu:0}
  - {initializer: init}
  - {op: Add, name: a, inputs: [x, v], device: /gpu:1}
run: [{fetch: [init]}, {fetch: [a], feed: {x: [1.0, 2.0]}}]
"""
_POLICY: dict[str, Any] = {
    "description": "d",
    "rules": [
        "no-soft-fallback",
        {"no-ignored-colocation": {"except": ["a*"]}},
        {"max-transfers": {"count": 10, "from": "GPU:0", "to": "CPU:0"}},
        {"max-transfer-bytes": {"bytes": "4MiB", "unknown": 4}},
        {"on-device": {"ops": ["Add"], "nodes": ["a/"], "device": "/gpu:*"}},
        {"not-on-device": {"ops": ["Add"], "device": "GPU:0"}},
        {"together": ["a", "v"]},
        {"apart": ["a/", "v/"]},
        {"variables-with-consumers": {"nodes": ["*"]}},
        {"balance": {"of": "operations", "type": "GPU", "within": "20%"}},
        {"max-memory": {"bytes": "1GiB", "device": "GPU:0"}},
        {"max-step-time": {"seconds": "5ms", "step": 1, "of": "high"}},
        {"max-link-bytes": {"bytes": "4MiB", "link": ["*PCIe*"], "from": "GPU:0", "to": "CPU:0"}},
        {"baseline": {"file": "report.json"}},
    ],
}
_INVENTORY: dict[str, Any] = {
    "devices": [
        {"job": "ps", "tasks": 2, "cpu": 1, "xla_cpu": 1, "gpu": {"count": 2, "model": "Tesla K20m", "memory": "4800MiB"}},
        {
            "job": "worker",
            "gpu": {"model": {"name": "m", "memory": "1GiB", "compute_capability": 3.5, "flops": 1e12, "bandwidth": 1e9}},
        },
        {"job": "w", "gpu": {"model": {"name": "m", "memory": 5, "pci_bus_id": ["0000:02:00.0"]}}, "xla_gpu": 1},
    ],
    "links": [
        {"between": ["GPU:0", "switch:a"], "bandwidth": "PCIe 3.0 x16", "latency": "5us", "name": "up"},
        {"between": ["/job:ps/task:*/host", "network"], "bandwidth": "100Gbit/s", "ways": "one", "kind": "network"},
        {"shared_by": ["GPU:*", "host", "CPU:0"], "bandwidth": 1e9, "latency": 1e-6},
        {"between": ["GPU:*", "GPU:*"], "bandwidth": "free"},
    ],
}
_POLICY_KEYS = (
    "rules",
    "bytes",
    "from",
    "to",
    "nodes",
    "ops",
    "device",
    "within",
    "of",
    "type",
    "file",
    "count",
    "except",
    "unknown",
    "seconds",
    "step",
    "link",
)
_INVENTORY_KEYS = (
    "devices",
    "job",
    "tasks",
    "cpu",
    "gpu",
    "count",
    "model",
    "memory",
    "name",
    "pci_bus_id",
    "flops",
    "xla_cpu",
    "links",
    "between",
    "shared_by",
    "latency",
    "ways",
    "kind",
)
_PREDICTION_KEYS = (
    "seconds",
    "low",
    "high",
    "devices",
    "links",
    "nodes",
    "transfers",
    "critical_path",
    "node",
    "op",
    "device",
    "name",
    "bytes",
    "start",
    "end",
    "sender",
    "receiver",
)
_TRACE_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "op", "process_name", "traceEvents", "step_num")
_REPORT_KEYS = (
    "devices",
    "placements",
    "transfers",
    "node",
    "op",
    "device",
    "requested",
    "tensor",
    "src",
    "dst",
    "bytes",
    "error",
)


def inputs(rng: Random) -> Iterator[Input]:
    """Each kind of file as often as any other."""
    kinds: tuple[Callable[[Random], Input], ...] = (
        _report,
        _report,
        _prediction,
        _measurement,
        _policy,
        _inventory,
        _feed,
        _array,
    )
    while True:
        yield rng.choice(kinds)(rng)


@cache
def _reports() -> tuple[Any, ...]:
    """Reports of a placement, of a placement that fails, and of a run, as `--format json` writes them."""
    graphs = [parse(graph) for graph in (_GRAPH, *examples()[:6])]
    return (*(_written(place, graph) for graph in graphs), _written(run, graphs[0]))


def _written(command: Callable[..., Report], graph: Any) -> Any:
    try:
        report = command(graph)
    except PlacesimError as error:
        report = error.report
    return json.loads(json.dumps(report.document()))


def _report(rng: Random) -> Input:
    report = dump(mutate_tree(rng, rng.choice(_reports()), _REPORT_KEYS))
    if rng.random() < 0.1:
        report = mutate_bytes(rng, report)
    other = dump(rng.choice(_reports()))
    command = rng.choice(("explain", "check", "diff", "show"))
    line = command_line(rng, "report.json", command)
    if command == "diff":
        line = ("diff", *rng.choice((("report.json", "other.json"), ("other.json", "report.json"))), *line[2:])
        line = tuple(word for word in line if word != "missing")
    return Input(line, {"report.json": report, "other.json": other})


@cache
def _predictions() -> tuple[Any, ...]:
    """Of the graph on two machines, as `simulate --format json` writes them."""
    graph, found = parse(_GRAPH), []
    for gpu_model in ("Tesla K80", "Tesla V100-SXM2-16GB"):
        options = make_options({"gpu_model": gpu_model})
        study = study_time(load(graph, None, options), options, "g")
        found.append(json.loads(json.dumps(time_document(study))))
    return tuple(found)


def _prediction(rng: Random) -> Input:
    prediction = dump(mutate_tree(rng, rng.choice(_predictions()), _PREDICTION_KEYS))
    if rng.random() < 0.1:
        prediction = mutate_bytes(rng, prediction)
    other = dump(rng.choice(_predictions())) if rng.random() < 0.7 else dump(rng.choice(_reports()))
    line = rng.choice((("diff", "report.json", "other.json"), ("diff", "other.json", "report.json"), ("show", "report.json")))
    form = ("--format", "json") if rng.random() < 0.5 else ()
    return Input((*line, *form), {"report.json": prediction, "other.json": other})


@cache
def _measurements() -> tuple[bytes, ...]:
    """Recordings of TensorFlow."""
    return tuple(gzip.decompress(path.read_bytes()) for path in sorted((ROOT / "tests/data/traces").iterdir()))


@cache
def _trace() -> Any:
    """A trace of the simulated graph, as `simulate --trace` writes it."""
    options = make_options({})
    return list(trace_events(study_time(load(parse(_GRAPH), None, options), options, "g", is_traced=True)))


def _measurement(rng: Random) -> Input:
    if rng.random() < 0.5:
        content = dump(mutate_tree(rng, {"traceEvents": _trace()}, _TRACE_KEYS))
    else:
        content = mutate_bytes(rng, rng.choice(_measurements()))
    command = rng.choice((("simulate", "--compare"), ("calibrate", "--from")))
    return Input((*command, "step", "graph.yaml"), {"step": content, "graph.yaml": _GRAPH})


def _policy(rng: Random) -> Input:
    policy = mutate_tree(rng, {**_POLICY, "rules": rng.sample(_POLICY["rules"], 3)}, _POLICY_KEYS)
    content = dump(policy) if rng.random() < 0.8 else mutate_text(rng, dump(policy).decode()).encode("utf-8", "surrogatepass")
    report = dump(mutate_tree(rng, rng.choice(_reports()), _REPORT_KEYS))
    line = command_line(rng, rng.choice(("g.yaml", "report.json")), "check", options=1)
    return Input((*line, "--policy", "policy.yaml"), {"g.yaml": _GRAPH, "policy.yaml": content, "report.json": report})


def _inventory(rng: Random) -> Input:
    content = dump(mutate_tree(rng, _INVENTORY, _INVENTORY_KEYS))
    command = rng.choice(("devices", "devices", "place", "show", "explain", "diff", "simulate"))
    line = ("devices",) if command == "devices" else command_line(rng, "g.yaml", command, options=1)
    form = ("--format", "json") if command == "devices" and rng.random() < 0.5 else ()
    return Input((*line, "--inventory", "machine.yaml", *form), {"g.yaml": _GRAPH, "machine.yaml": content})


def _feed(rng: Random) -> Input:
    value = rng.choice(
        (dump(odd_value(rng)).decode(), mutate_text(rng, "[1.0, {bytes: AA==}, {tensor: {dtype: float, value: 1}}]"))
    )
    feed = f"{rng.choice(('x', 'x:0', 'a', 'v', odd_text(rng)))}={value}".replace("\0", "")
    feed = feed.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    fetch = rng.choice(OPTIONS["run"]["--fetch"])
    return Input(("run", "g.yaml", "--timeout", STEP_SECONDS, "--feed", feed, "--fetch", fetch), {"g.yaml": _GRAPH})


def _array(rng: Random) -> Input:
    """A `.npy` file, mutated in its header or in its data, as a feed of the command line or of the file."""
    values = rng.choice((np.ones(2, np.float32), np.zeros((2, 2)), np.array(["a"]), np.array([b"a"]), np.zeros(2, "M8[s]")))
    stream = io.BytesIO()
    np.save(stream, values)
    content = stream.getvalue()
    if rng.random() < 0.8:
        end = rng.choice((128, len(content)))
        content = mutate_bytes(rng, content[:end]) + content[end:]
    if rng.random() < 0.2:
        content = content.replace(
            b"(2,)", rng.choice((b"(-2,)", b"(2, 99999999999)", b"(1<<40,)", b"(True,)", b"((2,),)", b"[2]"))
        )
    graph = _GRAPH.replace(b"[1.0, 2.0]", b"{file: x.npy}")
    by_file = ("run", "g.yaml", "--timeout", STEP_SECONDS)
    by_line = ("run", "g.yaml", "--timeout", STEP_SECONDS, "--feed", "x=@x.npy", "--fetch", "x")
    return Input(rng.choice((by_file, by_line)), {"g.yaml": graph, "x.npy": content})
