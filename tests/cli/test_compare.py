"""`simulate --compare` and `calibrate --from`: a prediction beside a measured step."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import placesim
from placesim.formats.graph_file.sections.overrides import read_inventory
from placesim.report.terminal.timing import styled_timing
from tests.cli.shell import ROOT, Shell, rows

TRACES = ROOT / "tests/data/traces"
ALEXNET = (str(ROOT / "graphs/alexnet.yaml"), "--gpu", "0", "--soft-placement")
CIFAR = (str(ROOT / "graphs/cifar10-towers.yaml"), "--gpu", "0", "--soft-placement")
RECORDED = str(TRACES / "alexnet.trace.json.gz")
LAYERS = "\n".join(
    f"  - {{op: {op}, name: {op}_{n}, inputs: {inputs}, device: /gpu:0}}"
    for n in (256, 512, 1024, 2048)
    for op, inputs in (("MatMul", f"[x_{n}, x_{n}]"), ("Tanh", f"[MatMul_{n}]"), ("Relu", f"[Tanh_{n}]"))
)
GRAPH = f"""
devices: {{cpu: 1, gpu: {{count: 1, model: Tesla V100-SXM2-16GB}}}}
nodes:
  - {{op: Placeholder, name: x_256, dtype: float32, shape: [256, 256]}}
  - {{op: Placeholder, name: x_512, dtype: float32, shape: [512, 512]}}
  - {{op: Placeholder, name: x_1024, dtype: float32, shape: [1024, 1024]}}
  - {{op: Placeholder, name: x_2048, dtype: float32, shape: [2048, 2048]}}
{LAYERS}
fetch: [Relu_256, Relu_512, Relu_1024, Relu_2048]
"""


def compared(shell: Shell, *arguments: str) -> Any:
    ended = shell("simulate", *arguments, "--format", "json")
    assert (ended.code, ended.complaint) == (0, "")
    return json.loads(ended.output)


def test_a_fused_node_is_compared_with_the_nodes_that_it_replaces(shell: Shell) -> None:
    document = compared(shell, *ALEXNET, "--compare", RECORDED)
    found = document["comparison"]
    assert (found["format"], found["steps"]) == ("a trace of the profiler", 4)
    assert found["matched"] > 0.99
    assert found["ratio"] == pytest.approx(document["seconds"] / found["measured"])
    nodes = {node["node"]: node for node in found["nodes"]}
    assert sum(node["share"] for node in found["nodes"]) == pytest.approx(found["matched"])
    fused = nodes["tower/relu2"]
    assert (fused["op"], sorted(fused["replaced"])) == ("_FusedConv2D", ["tower/conv2", "tower/conv2_biased"])
    predicted = {node["node"]: node["seconds"] for node in document["nodes"]}
    assert fused["predicted"] == pytest.approx(sum(predicted[name] for name in ("tower/relu2", *fused["replaced"])))
    (op,) = (op for op in found["ops"] if op["op"] == "_FusedConv2D")
    assert op["nodes"] == 10
    assert op["measured"] == pytest.approx(sum(node["measured"] for node in nodes.values() if node["op"] == "_FusedConv2D"))
    # nothing is left over twice: every predicted node is compared, replaced or listed as unmatched
    used = [name for node in found["nodes"] for name in (node["node"], *node["replaced"])]
    assert len(used) == len(set(used))
    left = sum(group["nodes"] for group in found["unmatched"] if group["side"] == "predicted")
    assert len(used) + left == len(predicted)


def test_a_simulated_trace_compares_as_equal(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    assert shell("simulate", graph, "--trace", "step.json").code == 0
    found = compared(shell, graph, "--compare", "step.json")["comparison"]
    assert (found["format"], found["steps"], found["matched"]) == ("a timeline", 1, 1.0)
    assert found["ratio"] == pytest.approx(1, rel=1e-4)
    assert len(found["nodes"]) == 12 + 8 + 8  # those on the GPU, fed or fetched on the CPU, and copied
    assert [node["ratio"] for node in found["nodes"]] == pytest.approx([1] * 28, rel=1e-3)
    assert found["unmatched"] == []
    # a host's records of a GPU's nodes are their launches alone
    events = json.loads((shell.directory / "step.json").read_text("utf-8"))["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    kept = [event for event in events if "/stream" not in processes[event["pid"]] and "/memcpy" not in processes[event["pid"]]]
    shell.write("launches.json", json.dumps(kept))
    found = compared(shell, graph, "--compare", "launches.json")["comparison"]
    told = {(group["side"], group["reason"]): group["nodes"] for group in found["unmatched"]}
    assert told == {
        ("measured", "launch whose GPU kernels were not recorded"): 12,
        ("predicted", "transfer that was not recorded"): 8,
    }


@pytest.mark.slow
def test_what_is_shown(shell: Shell) -> None:
    ended = shell("simulate", *ALEXNET, "--compare", RECORDED, "--top", "2")
    ((format, steps, predicted, measured, ratio, matched),) = rows(ended.output, "measured")
    assert (format, steps) == ("a trace of the profiler", "4")
    assert float(ratio) == pytest.approx(float(predicted) / float(measured), rel=1e-3)
    assert float(matched) > 0.99
    assert [row[0] for row in rows(ended.output, "measured_op")] == ["_FusedMatMul", "_FusedConv2D"]
    assert [len(row) for row in rows(ended.output, "measured_node")] == [8, 8]
    unmatched = [row[:2] for row in rows(ended.output, "unmatched")]
    assert unmatched == [["measured", "start of a transfer"], ["predicted", "not recorded"]]

    for table, first in (("measured", "format"), ("measured-ops", "op"), ("measured-nodes", "node"), ("unmatched", "side")):
        ended = shell("simulate", *ALEXNET, "--compare", RECORDED, "--format", "csv", "--table", table)
        assert ended.output.startswith(f"{first},")
        assert ended.output.count("\n") > 1
    report = placesim.simulate(ALEXNET[0], gpu=0, soft_placement=True, compare=Path(RECORDED))
    assert report.comparison is not None
    assert report.comparison.steps == 4
    assert report.table("measured-ops")[0]["op"] == "_FusedMatMul"
    shown = " ".join(styled_timing(report.study, io.StringIO(), 3).split())
    assert "in a trace of the profiler, the median of 4 steps; predicted 0." in shown
    assert "fused or rewritten: 16 measured nodes for 48 nodes of the graph" in shown


def test_a_measurement_of_another_graph_is_refused(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell("simulate", graph, "--compare", RECORDED)
    assert ended.code == 2
    assert "the measurement is of another graph: got nodes such as " in ended.complaint
    assert ", expected nodes such as Tanh_2048, MatMul_1024, MatMul_2048" in ended.complaint
    for arguments in (["simulate", graph, "--compare", "."], ["calibrate", "--from", "none", graph]):
        ended = shell(*arguments)
        assert ended.code == 2
        assert "cannot read the measurement" in ended.complaint


def test_a_host_is_fitted_to_a_measured_step(shell: Shell) -> None:
    ended = shell("calibrate", "--from", RECORDED, *ALEXNET, "--output", "there.yaml")
    assert ended.code == 0
    found = re.fullmatch(
        r"Fitted to 24 nodes of a trace of the profiler\. On 23 other nodes, the median error is a factor of (\S+); "
        r"before, it was (\S+)\.\n",
        ended.complaint,
    )
    assert found
    assert 1 <= float(found[1]) < float(found[2])
    ((task,), _) = read_inventory((shell.directory / "there.yaml").read_bytes())
    assert task.host is not None
    assert task.host.ops["LRN"] > 1
    assert min(task.host.flops, task.host.bandwidth, task.host.dispatch) > 0
    ratios = [
        compared(shell, *ALEXNET, "--compare", RECORDED, *options)["comparison"]["ratio"]
        for options in ([], ["--profile", "there.yaml"])
    ]
    assert abs(1 - ratios[1]) < abs(1 - ratios[0])


def test_a_fit_that_does_not_predict_better_is_told(shell: Shell) -> None:
    disturbed = str(TRACES / "cifar10-towers.run-metadata.pb.gz")  # other programs ran beside TensorFlow
    ended = shell("calibrate", "--from", disturbed, *CIFAR, "--output", "there.yaml")
    assert ended.code == 0
    assert ended.complaint.startswith("Fitted to 66 nodes of a RunMetadata. On 66 other nodes, the median error is")
    assert "Warning: these figures predict no better than the given ones." in ended.complaint


def test_a_gpu_is_fitted_to_a_measured_step(shell: Shell) -> None:
    """A step that is simulated on a V100 fits a V100, whatever rates the fit begins with."""
    graph = shell.write("g.yaml", GRAPH)
    assert shell("simulate", graph, "--trace", "step.json").code == 0
    wrong = "gpu: {count: 1, model: {name: Tesla V100-SXM2-16GB, flops: 4e+12, bandwidth: 3e+11}}"
    shell.write("wrong.yaml", f"devices: {{{wrong}}}")
    ended = shell("calibrate", "--from", "step.json", graph, "--inventory", "wrong.yaml")
    assert ended.code == 0
    ((task,), _) = read_inventory(ended.output.encode())
    assert task.gpu_model.flops == pytest.approx(15.7e12, rel=0.15)
    assert task.gpu_model.bandwidth == pytest.approx(900e9, rel=0.15)


def test_arguments_of_a_calibration_that_do_not_go_together(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    for arguments in ([graph], ["--from", RECORDED], ["--batch", "3"], ["--from", RECORDED, graph, "--quick"]):
        ended = shell("calibrate", *arguments)
        assert (ended.code, ended.output) == (2, "")
        assert "wrong arguments: got" in ended.complaint
    graph = shell.write("g.yaml", GRAPH)
    assert shell("simulate", graph, "--trace", "step.json").code == 0
    assert (
        "Warning: these figures predict no better than the given ones."
        in shell("calibrate", "--from", "step.json", graph).complaint
    )
    few = shell.write("few.yaml", "nodes: [{op: Const, name: classes/dimension, value: 1}]\nfetch: [classes/dimension]")
    ended = shell("calibrate", "--from", str(TRACES / "alexnet.timeline.json.gz"), few)
    assert ended.code == 2
    assert "too few nodes to fit to: got 0 in both the measurement and the graph, expected at least 8" in ended.complaint
