"""`placesim run --engine dask`: what a user sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.dry_runs.abstract_values import MAX_KNOWN_ELEMENTS
from tests.cli.shell import ROOT, Shell

GRAPHS = ROOT / "graphs"
GRAPH = str(GRAPHS / "cluster.yaml")


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_every_form_is_that_of_one_process(form: str, workers: Cluster, shell: Shell) -> None:
    arguments = ("run", GRAPH, "--format", form, "--log-placement")
    # the graph has four tasks, and there are two workers
    ended = shell(*arguments, "--engine", "dask", "--scheduler", workers.scheduler, "--soft-placement")
    assert ended.code == 0, ended.complaint
    assert "lives in tcp://" in ended.complaint
    assert ended.output == shell(*arguments, "--soft-placement").output
    if form == "jsonl":
        assert all(json.loads(line) for line in ended.output.splitlines())


@pytest.mark.cluster
def test_workers_of_its_own(shell: Shell) -> None:
    pytest.importorskip("distributed", reason="of the extra `dask`")
    words = ("run", str(GRAPHS / "logging.yaml"), "--no-log-placement")
    ended, here = shell(*words, "--engine", "dask", "--worker-per", "device"), shell(*words)
    assert (ended.code, ended.output) == (0, here.output)


def test_a_step_that_fails_leaves_what_was_printed(workers: Cluster, shell: Shell, tmp_path: Path) -> None:
    graph = tmp_path / "fails.yaml"
    graph.write_text(
        "devices: {cpu: 1, gpu: 1}\n"
        "nodes:\n"
        "  - {op: Placeholder, name: x, dtype: float, shape: [2], device: /cpu:0}\n"
        "  - {op: CheckNumerics, name: y, inputs: [x], attrs: {message: no number}, device: /gpu:0}\n"
        "run:\n"
        "  - {fetch: [y], feed: {x: [1.0, 2.0]}}\n"
        "  - {fetch: [y], feed: {x: [1.0, .nan]}}\n"
    )
    cluster = ("--engine", "dask", "--scheduler", workers.scheduler, "--worker-per", "device")
    there, here = shell("run", str(graph), *cluster), shell("run", str(graph))
    assert there.output == here.output != ""
    assert (there.code, there.complaint) == (here.code, here.complaint) == (1, here.complaint)


def test_a_file_that_a_worker_lacks(workers: Cluster, shell: Shell, tmp_path: Path) -> None:
    missing = str(tmp_path / "there.txt")
    nodes = [{"op": "Const", "name": "name", "value": missing}, {"op": "ReadFile", "name": "text", "inputs": ["name"]}]
    graph = tmp_path / "reads.yaml"
    graph.write_text(json.dumps({"nodes": nodes, "fetch": ["text"]}))
    there = shell("run", str(graph), "--engine", "dask", "--scheduler", workers.scheduler)
    here = shell("run", str(graph))
    assert there.code == here.code == 1
    (place,) = [line for line in there.complaint.splitlines() if line.startswith("  the worker at tcp://")]
    assert there.complaint.replace(f"{place}\n", "") == here.complaint
    assert "has no such file: paths are on its machine, relative to /" in place


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--worker", "/cpu:0=x"], "--worker without a cluster: expected --engine dask as well"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler without a cluster: expected --engine dask as well"),
        (["--report", "x.html"], "--report without a cluster: expected --engine dask as well"),
    ],
)
def test_options_of_the_other_engine(options: list[str], complaint: str, shell: Shell) -> None:
    ended = shell("run", GRAPH, *options)
    assert ended.code == 2
    assert complaint in ended.complaint


TIGHT = f"""
devices: {{cpu: 1, gpu: {{count: 1, memory: 16MiB}}}}
nodes:
  - {{op: Const, name: t, value: said, device: /cpu:0}}
  - {{op: PrintV2, name: p, inputs: [t], device: /cpu:0}}
  - {{op: Placeholder, name: given, dtype: float, shape: [{MAX_KNOWN_ELEMENTS + 1}], device: /cpu:0}}
  - {{op: Neg, name: minus, inputs: [given], device: /cpu:0}}
  - {{op: Fill, name: x, inputs: [[2000, 1500], 1.0]}}
  - {{op: Sqrt, name: root, inputs: [x]}}
  - {{op: Exp, name: power, inputs: [x]}}
run:
  - {{fetch: [x, minus], feed: {{given: {[1.0] * (MAX_KNOWN_ELEMENTS + 1)}}}}}
  - {{fetch: [x, root, power, p]}}
"""
"""There is room for x and for a fed tensor that is too large to be known beforehand, and not for its root beside it."""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--report-tensor-allocations-upon-oom"], 1),
        (["--log-memory"], 1),
        (["--no-memory-limit", "--summary"], 0),
    ],
)
def test_a_device_runs_out_of_memory_as_in_one_process(
    options: list[str], code: int, workers: Cluster, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = shell.write("g.yaml", TIGHT)
    there = shell("run", graph, *options, "--engine", "dask", "--scheduler", workers.scheduler, "--worker-per", "device")
    assert there == shell("run", graph, *options)
    assert there.code == code
    assert "said\n" in there.complaint


def test_an_earlier_error_than_that_of_memory_is_the_steps(workers: Cluster, shell: Shell) -> None:
    """What fails when it runs is known only then; the step's order tells which comes first."""
    early = "  - {op: CheckNumerics, name: bad, inputs: [nan], attrs: {message: no number}, device: /cpu:0}\n"
    text = TIGHT.replace("  - {op: Fill", f"  - {{op: Const, name: nan, value: [.nan], device: /cpu:0}}\n{early}  - {{op: Fill")
    graph = shell.write("g.yaml", text.replace("power, p]", "power, p, bad]"))
    there = shell("run", graph, "--engine", "dask", "--scheduler", workers.scheduler, "--worker-per", "device")
    assert there == shell("run", graph)
    assert "CheckNumerics" in there.complaint or "no number" in there.complaint


def test_from_python(workers: Cluster) -> None:
    here = placesim.run(GRAPH)
    there = placesim.run(GRAPH, engine="dask", scheduler=workers.scheduler, soft_placement=True, scheduler_timeout=30.0)
    assert there.document() == placesim.run(GRAPH, soft_placement=True).document()
    assert there.results["loss"] == here.results["loss"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"engine": "dusk"}, "unknown engine: got 'dusk', expected local or dask; did you mean 'dask'?"),
        ({"engine": "dask", "worker_per": "devise"}, "unknown worker_per: got 'devise', expected task or device"),
        ({"scheduler": "tcp://127.0.0.1:1"}, "cluster options without a cluster: expected engine='dask' as well"),
        ({"engine": "dask", "worker": {"/job:ps": "x"}}, "--worker without a cluster: expected --scheduler"),
    ],
)
def test_wrong_options_from_python(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(placesim.UsageError) as raised:
        placesim.run(GRAPH, **options)
    assert raised.value.message.startswith(complaint)
