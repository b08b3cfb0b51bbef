"""`placesim check` at the level of the command line: forms, exit codes, and SARIF's structure."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ROOT, Shell

TOWERS = ("--gpu", "1", "--soft-placement")
GRAPH = """nodes:
  - {op: Const, name: a, value: [[1.0]]}
  - {op: MatMul, name: 'm', inputs: [a, a], device: '/gpu:3'}
"""
LINE = "g.yaml:3:5: no-soft-fallback: m requested /device:GPU:3 but is on GPU:0"


def test_findings_as_text(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    assert shell("check", graph, *TOWERS, "--rule", "no-soft-fallback") == (1, LINE + "\n", "1 finding in 1 graph\n")


def test_a_clean_placement(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    assert shell("check", graph, "--gpu", "4", "--rule", "no-soft-fallback") == (0, "", "no findings in 1 graph\n")


def test_nodes_that_ask_for_a_gpu_where_there_is_none_are_one_finding(shell: Shell) -> None:
    ended = shell(
        "check", str(ROOT / "graphs" / "towers.yaml"), "--gpu", "0", "--soft-placement", "--rule", "no-soft-fallback", "-q"
    )
    assert ended.output.endswith("6 nodes requested a GPU, and the machine has none (the first is MatMul, now on CPU:0)\n")
    assert (ended.output.count("\n"), ended.complaint) == (1, "")


def test_a_policy_file(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    policy = shell.write("policy.yaml", "description: ours\nrules:\n  - no-soft-fallback\n  - max-transfers: 0\n")
    ended = shell("check", graph, *TOWERS, "--policy", policy)
    assert ended.code == 1
    assert ended.output.splitlines() == [
        LINE,
        "g.yaml:3:5: max-transfers: 1 transfer, limit 0; largest: m:0 to CPU:0 (4 bytes, g.yaml:3:5); "
        "the rule `baseline` names new ones",
    ]


def test_findings_as_json(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell("check", graph, *TOWERS, "--rule", "no-soft-fallback", "--format", "json")
    message = "m requested /device:GPU:3 but is on GPU:0"
    row = {"file": "g.yaml", "line": 3, "column": 5, "rule": "no-soft-fallback", "message": message, "node": "m"}
    assert json.loads(ended.output) == {"findings": [row]}


def test_findings_as_githubs_annotations(shell: Shell) -> None:
    graph = shell.write("g,1%.yaml", GRAPH)
    ended = shell("check", graph, *TOWERS, "--rule", "no-soft-fallback", "--format", "github")
    message = "m requested /device:GPU:3 but is on GPU:0"
    assert ended.output == f"::error file=g%2C1%25.yaml,line=3,col=5,title=no-soft-fallback::{message}\n"


def test_problems_as_githubs_annotations(shell: Shell) -> None:
    """Graphs that can't be read or placed stand beside the findings of the others; each problem is at its line."""
    good = shell.write("g.yaml", GRAPH)
    bad = shell.write("b.yaml", "nodes:\n  - {op: '::error::', name: a}\n  - {op: NoOp, nmae: n}\n")
    ended = shell("check", bad, "none.yaml", good, *TOWERS, "--rule", "no-soft-fallback", "--format", "github")
    assert ended.code == 2
    lines = ended.output.splitlines()
    assert [line.partition(",col")[0] for line in lines] == [
        "::error file=b.yaml,line=2",
        "::error file=b.yaml,line=3",
        "::error file=none.yaml,line=1",
        "::error file=g.yaml,line=3",
    ]
    alone = shell("check", bad, "--format", "github")
    assert alone == (2, "".join(f"{line}\n" for line in lines[:2]), shell("check", bad).complaint)
    unknown = shell("check", good, "--fetch", "%:,", "--format", "github").output
    assert unknown.startswith("::error file=g.yaml,line=1,col=1,title=ValueError::Fetch argument '%25:,' cannot")


def test_findings_as_sarif(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    rules = ("--rule", "max-transfers=9", "--rule", "no-soft-fallback")
    ended = shell("check", graph, *TOWERS, *rules, "--format", "sarif")
    document = json.loads(ended.output)
    check_sarif(document)
    (run,) = document["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["max-transfers", "no-soft-fallback"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "g.yaml"},
        "region": {"startLine": 3, "startColumn": 5},
    }


def test_sarif_of_a_graph_that_cannot_be_placed_and_of_a_clean_one(shell: Shell) -> None:
    graph = shell.write("g 1.yaml", GRAPH)
    broken = json.loads(shell("check", graph, "--format", "sarif").output)
    check_sarif(broken)
    assert broken["runs"][0]["results"][0]["ruleId"] == "placeable"
    clean = json.loads(shell("check", graph, "--gpu", "4", "--format", "sarif").output)
    check_sarif(clean)
    assert clean["runs"][0]["results"] == []


def check_sarif(document: dict[str, Any]) -> None:
    """What SARIF 2.1.0's schema requires and forbids of the objects that are used (OASIS sarif-schema-2.1.0)."""
    only(document, required=("version", "runs"), optional=("$schema",))
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    for run in document["runs"]:
        only(run, required=("tool",), optional=("results", "columnKind"))
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        only(run["tool"], required=("driver",))
        only(run["tool"]["driver"], required=("name",), optional=("version", "rules"))
        rules = run["tool"]["driver"]["rules"]
        for rule in rules:
            only(rule, required=("id",), optional=("shortDescription",))
            only(rule["shortDescription"], required=("text",))
        assert len({rule["id"] for rule in rules}) == len(rules)
        for result in run["results"]:
            check_result(result, [rule["id"] for rule in rules])


def check_result(result: dict[str, Any], rules: list[str]) -> None:
    only(result, required=("message",), optional=("ruleId", "ruleIndex", "level", "locations"))
    only(result["message"], required=("text",))
    assert rules[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in ("none", "note", "warning", "error")
    for location in result["locations"]:
        only(location, required=(), optional=("physicalLocation", "logicalLocations"))
        physical = location["physicalLocation"]
        only(physical, required=("artifactLocation", "region"))
        only(physical["artifactLocation"], required=("uri",))
        assert " " not in physical["artifactLocation"]["uri"]
        only(physical["region"], required=("startLine",), optional=("startColumn",))
        assert physical["region"]["startLine"] >= 1
        assert physical["region"]["startColumn"] >= 1
        for logical in location.get("logicalLocations", ()):
            only(logical, required=(), optional=("fullyQualifiedName", "kind"))


def only(found: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    assert set(required) <= found.keys() <= {*required, *optional}


def test_a_placement_error_is_a_finding(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    ended = shell("check", graph)
    assert ended.code == 1
    assert ended.output.startswith("g.yaml:3:5: placeable: InvalidArgumentError: Cannot assign a device for operation m:")


def test_a_baseline_keeps_a_placement(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    shell.write("old.json", shell("place", graph, "--gpu", "4", "--format", "json").output)
    assert shell("check", graph, "--gpu", "4", "--rule", "baseline=old.json").code == 0
    ended = shell("check", graph, *TOWERS, "--rule", "baseline=old.json")
    assert ended.code == 1
    assert ended.output.splitlines()[0] == "g.yaml:3:5: baseline: m is on GPU:0, but on GPU:3 in old.json"


def test_a_report_is_checked_in_place_of_its_graph(shell: Shell) -> None:
    report = shell.write("r.json", shell("place", shell.write("g.yaml", GRAPH), *TOWERS, "--format", "json").output)
    ended = shell("check", report, "--rule", "no-soft-fallback")
    assert ended == (1, LINE.replace("g.yaml:3:5", "r.json:1:1") + "\n", "1 finding in 1 graph\n")
    assert shell("check", report, "--rule", "balance=nodes").code == 2


def test_the_rules_are_listed(shell: Shell) -> None:
    ended = shell("check", "--rules")
    assert ended.code == 0
    assert ended.output.startswith("no-soft-fallback\n    Soft placement moves no node")


def test_wrong_command_lines(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    policy = shell.write("policy.yaml", "rules: [no-soft-falback]\n")
    for arguments, message in (
        ((), "UsageError: missing argument GRAPH"),
        ((graph, "--rule", "no-such-rule"), "UsageError: unknown rule: got 'no-such-rule'"),
        ((graph, "--policy", policy), "GraphFileError: policy.yaml:1:9: unknown rule: got 'no-soft-falback'"),
        ((graph, "--policy", "none.yaml"), "GraphFileError: none.yaml: cannot read the policy"),
        ((graph, "--format", "sarfi"), "UsageError:"),
    ):
        ended = shell("check", *arguments)
        assert (ended.code, ended.output) == (2, "")
        assert ended.complaint.startswith(message)


def test_the_guides_advice_on_the_cifar_towers(shell: Shell) -> None:
    path = str(ROOT / "graphs" / "cifar10-towers.yaml")
    ended = shell("check", path, *TOWERS, "--rule", "variables-with-consumers")
    assert ended.code == 1
    first = "variables-with-consumers: tower/conv1 reads conv1/weights and is on GPU:0, but the variable is on CPU:0"
    assert ended.output.splitlines()[0].endswith(first)


def test_a_terminal_colours_the_place_the_rule_and_the_devices(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    graph = shell.write("g.yaml", GRAPH)
    assert shell("check", graph, *TOWERS, "--rule", "no-soft-fallback").output == (
        "\x1b[34mg.yaml:3:5\x1b[0m: \x1b[1;31mno-soft-fallback\x1b[0m: "
        "m requested \x1b[32m/device:GPU:3\x1b[0m but is on \x1b[32mGPU:0\x1b[0m\n"
    )


PRODUCT = """nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [-1, 1024]}
  - {op: Const, name: w, dtype: float32, shape: [1024, 1024], value: 1.0, device: '/gpu:0'}
  - {op: MatMul, name: y, inputs: [x, w], device: '/gpu:0'}
"""
PEAK = "max-peak-memory: {bytes: 1MiB, device: GPU}"


def test_the_peak_of_the_steps_is_found_at_its_node(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    ended = shell("check", graph, "--gpu", "1", "--batch", "1024", "--rule", PEAK)
    assert (ended.code, ended.complaint) == (1, "1 finding in 1 graph\n")
    # x as it was received, w and y have 4 MiB each; and a GPU has a scratch buffer
    assert ended.output.startswith(f"g.yaml:4:5: max-peak-memory: GPU:0 holds {3 * 4 * 2**20 + 1280} bytes while y runs, limit")
    assert f"w ({4 * 2**20} bytes)" in ended.output
    assert shell("check", graph, "--gpu", "1", "--shape", "x=2,1024", "--rule", "max-peak-memory=5MiB").code == 0


def test_a_peak_needs_the_shapes_and_the_graph(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    ended = shell("check", graph, "--gpu", "1", "--rule", PEAK)
    assert ended.code == 2
    assert "placeholders have unknown shapes: x [?,1024]" in ended.complaint
    assert "--batch N" in ended.complaint
    report = shell.write("r.json", shell("place", graph, "--gpu", "1", "--format", "json").output)
    ended = shell("check", report, "--rule", PEAK)
    assert ended.code == 2
    assert "rule max-peak-memory needs the graph" in ended.complaint


def test_a_peak_is_told_beyond_what_the_device_has(shell: Shell) -> None:
    graph = shell.write("g.yaml", PRODUCT)
    ended = shell("check", graph, "--gpu", "1", "--batch", str(10**9), "--rule", PEAK)
    assert (ended.code, ended.complaint) == (1, "1 finding in 1 graph\n")


# --- time -----------------------------------------------------------------------------------------------------------

TIMED = """devices: {cpu: 1, gpu: {count: 2, model: Tesla K80}}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 1024]}
  - {op: Const, name: w, dtype: float32, shape: [1024, 1024], value: 1.0, device: '/gpu:0'}
  - {op: MatMul, name: y, inputs: [x, w], device: '/gpu:0'}
  - {op: Relu, name: z, inputs: [y], device: '/gpu:1'}
  - {op: NoOp, name: ready}
run:
  - fetch: [ready]
  - fetch: [z]
"""


def predicted(shell: Shell, graph: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(shell("simulate", graph, "--batch", "1024", "--format", "json").output)
    return document


def test_a_step_that_would_take_too_long_is_found_where_the_rule_stands(shell: Shell) -> None:
    graph = shell.write("g.yaml", TIMED)
    step = predicted(shell, graph)
    middle, high = step["seconds"], step["high"]
    between = (middle + high) / 2
    assert middle < between < high
    policy = shell.write(
        "p.yaml",
        f"rules:\n  - max-step-time: {between}\n  - max-step-time: {{seconds: {between}, of: high}}\n"
        f"  - max-step-time: {{seconds: {middle / 2}, step: 1}}\n  - max-step-time: {{seconds: {middle / 2}, step: 0}}\n"
        "  - max-step-time: {seconds: 1, step: 2}\n",
    )
    ended = shell("check", graph, "--batch", "1024", "--policy", policy)
    assert (ended.code, ended.complaint) == (1, "3 findings in 1 graph\n")
    upper, lower, missing = ended.output.splitlines()
    assert upper.startswith("p.yaml:3:5: max-step-time: step 1 takes ")
    assert "at the upper end of the interval" in upper
    assert lower.startswith("p.yaml:4:5: max-step-time: step 1 takes ")
    assert "; critical path with free transfers takes " in lower
    assert "slowest nodes: y (MatMul, " in lower
    assert missing == "p.yaml:6:5: max-step-time: there is no step 2: the steps are 0 to 1"


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("4MiB", []),
        (
            "4194303",
            ["link 'GPU:0 PCIe in' carries 4194304", "link 'GPU:0 PCIe out'", "link 'GPU:1 PCIe in'", "link 'GPU:1 PCIe out'"],
        ),
        ("{bytes: 1KiB, link: 'GPU:1*out'}", ["link 'GPU:1 PCIe out' carries 4194304 bytes, limit 1024"]),
        ("{bytes: 1KiB, link: NVLink*}", ["no link matches 'NVLink*': the machine's are GPU:0 PCIe in, GPU:0 PCIe out"]),
        (
            "{bytes: 1KiB, from: GPU:0}",
            ["4194304 bytes are copied from GPU:0 to GPU:1, limit 1024; largest: y (4194304 bytes)"],
        ),
        ("{bytes: 1KiB, from: GPU:0, to: CPU}", []),
        ("{bytes: 8MiB, to: GPU:5}", ["no device matches /device:GPU:5: the machine has CPU:0, GPU:0, GPU:1"]),
    ],
)
def test_bytes_over_links_and_between_devices(shell: Shell, rule: str, messages: list[str]) -> None:
    graph = shell.write("g.yaml", TIMED)
    ended = shell("check", graph, "--batch", "1024", "--rule", f"max-link-bytes: {rule}")
    lines = ended.output.splitlines()
    assert ended.code == bool(messages)
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"g.yaml:1:1: max-link-bytes: {message}")


def test_the_bytes_of_links_are_those_of_the_prediction(shell: Shell) -> None:
    graph = shell.write("g.yaml", TIMED)
    for link in predicted(shell, graph)["links"]:
        rule = f"max-link-bytes: {{bytes: {int(link['bytes'])}, link: '{link['name']}'}}"
        assert shell("check", graph, "--batch", "1024", "--rule", rule).code == 0


@pytest.mark.parametrize("rule", ["max-step-time=1", "max-link-bytes=1"])
def test_times_need_the_shapes_and_the_graph(shell: Shell, rule: str) -> None:
    graph = shell.write("g.yaml", TIMED)
    ended = shell("check", graph, "--rule", rule)
    assert ended.code == 2
    assert "placeholders have unknown shapes: x [?,1024]" in ended.complaint
    report = shell.write("r.json", shell("place", graph, "--format", "json").output)
    assert f"rule {rule.partition('=')[0]} needs the graph" in shell("check", report, "--rule", rule).complaint


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_a_late_step_in_every_form(shell: Shell, form: str) -> None:
    graph, policy = shell.write("g.yaml", TIMED), shell.write("p.yaml", "rules: [max-step-time: 1ns]\n")
    ended = shell("check", graph, "--batch", "16", "--policy", policy, "--format", form)
    assert ended.code == 1
    assert "max-step-time" in ended.output
    assert "p.yaml" in ended.output
    if form == "sarif":
        check_sarif(json.loads(ended.output))


def test_several_graphs(shell: Shell) -> None:
    graphs = [shell.write(name, GRAPH) for name in ("g.yaml", "h.yaml")]
    rule = ("--rule", "no-soft-fallback")
    assert shell("check", *graphs, *TOWERS, *rule) == (
        1,
        f"{LINE}\n{LINE.replace('g.yaml', 'h.yaml')}\n",
        "2 findings in 2 graphs\n",
    )
    ended = shell("check", "none.yaml", *graphs, *TOWERS, *rule, "--format", "json")
    assert ended.code == 2
    assert "none.yaml" in ended.complaint
    assert [row["file"] for row in json.loads(ended.output)["findings"]] == graphs
    assert shell("check", "-", "-").complaint.startswith("UsageError: standard input used twice")


def test_findings_as_junit(shell: Shell) -> None:
    good = shell.write("good & <new>.yaml", GRAPH.replace("/gpu:3", "/gpu:0"))
    graph = shell.write("g.yaml", GRAPH)
    refused = shell.write("refused.yaml", GRAPH.replace("device: '/gpu:3'", "device: '/job:ps'"))
    rules = ("--rule", "no-soft-fallback", "--rule", "max-transfers=9", "--rule", "max-transfers=8")
    ended = shell("check", good, graph, refused, "none.yaml", *TOWERS, *rules, "--format", "junit")
    assert ended.code == 2
    found = ElementTree.fromstring(ended.output.encode())
    assert found.attrib == {"name": "placesim check", "tests": "8", "failures": "2", "errors": "1"}
    cases = {suite.get("name"): [(case.get("name"), [part.tag for part in case]) for case in suite] for suite in found}
    assert cases == {
        good: [("placeable", []), ("no-soft-fallback", []), ("max-transfers", [])],
        graph: [("placeable", []), ("no-soft-fallback", ["failure"]), ("max-transfers", [])],
        refused: [("placeable", ["failure"])],
        "none.yaml": [("placeable", ["error"])],
    }
    failure = found.find(".//failure")
    assert failure is not None
    assert failure.text == LINE + "\n"
    assert failure.get("message") == "m requested /device:GPU:3 but is on GPU:0"


def test_findings_as_tables(shell: Shell) -> None:
    graph = shell.write("g.yaml", GRAPH)
    rule = ("--rule", "no-soft-fallback", "--format")
    message = "m requested /device:GPU:3 but is on GPU:0"
    csv = shell("check", graph, *TOWERS, *rule, "csv").output
    assert csv == f"file,line,column,rule,message,node\ng.yaml,3,5,no-soft-fallback,{message},m\n"
    markdown = shell("check", graph, *TOWERS, *rule, "markdown").output.splitlines()
    assert markdown[1] == "| --- | --- | --- | --- | --- | --- |"
    assert markdown[2] == f"| g.yaml | 3 | 5 | no-soft-fallback | {message} | m |"


def test_a_graph_or_a_report_a_line(shell: Shell) -> None:
    graph = {"nodes": [{"op": "Const", "name": "a", "value": 1.0, "device": "/gpu:3"}]}
    shell.write("graphs.jsonl", "\n".join([json.dumps(graph), "", json.dumps({"nodes": 3}), json.dumps(graph)]))
    words = ["--gpu", "1", "--soft-placement", "--rule", "no-soft-fallback", "--format", "csv"]
    ended = shell("check", "graphs.jsonl", *words)
    assert (ended.code, ended.complaint.partition(",")[0]) == (
        2,
        "GraphFileError: graphs.jsonl:3:1:11: wrong type of 'nodes': got 3",
    )
    assert [line.split(",")[:4] for line in ended.output.splitlines()[1:]] == [
        [f"graphs.jsonl:{line}", "1", "12", "no-soft-fallback"] for line in (1, 4)
    ]
    shell.write("one.jsonl", json.dumps(graph) + "\n" + json.dumps(graph))
    shell.write("placed.jsonl", shell("place", "one.jsonl", "--gpu", "1", "--soft-placement", "--format", "json").output)
    again = shell("check", "placed.jsonl", "--rule", "no-soft-fallback", "--format", "csv")
    assert again.code == 1
    assert again.output.count("no-soft-fallback") == 2
    assert shell("check", "none.jsonl").code == 2


UNKNOWN_SIZES = """\
devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [null, 4], device: /cpu:0}
  - {op: Relu, name: one, inputs: [x], device: /gpu:0}
  - {op: Relu, name: two, inputs: [one], device: /gpu:1}
run:
  - fetch: [two]
"""
BETWEEN_GPUS = "max-transfer-bytes: {bytes: 1KiB, from: '/gpu:*', to: '/gpu:*'}"


def test_a_transfer_of_unknown_size_breaks_a_byte_rule(shell: Shell) -> None:
    graph = shell.write("g.yaml", UNKNOWN_SIZES)
    ended = shell("check", graph, "--rule", BETWEEN_GPUS)
    assert ended.code == 1
    assert (
        "1 transfer from /device:GPU:* to /device:GPU:* of unknown size: one:0 to GPU:1 (unknown size, g.yaml:4:5)"
        in ended.output
    )
    assert "x [?,4]; `--batch N` sets the first dimension of all" in ended.output
    counted = BETWEEN_GPUS.replace("}", ", unknown: 2KiB}")
    assert "2048 bytes are transferred" in shell("check", graph, "--rule", counted).output
    assert shell("check", graph, "--rule", counted.replace("2KiB", "0")).code == 0


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        ("", ("--batch", "100")),
        ("", ("--shape", "x=100,4")),
        ("", ("--assume-unknown", "100")),
        ("    feed: {x: {random_normal: [100, 4]}}\n", ()),
    ],
)
def test_a_byte_rule_uses_the_sizes_of_a_dry_run(shell: Shell, run: str, arguments: tuple[str, ...]) -> None:
    graph = shell.write("g.yaml", UNKNOWN_SIZES + run)
    ended = shell("check", graph, "--rule", BETWEEN_GPUS, *arguments)
    said = (
        "1600 bytes are transferred from /device:GPU:* to /device:GPU:*, limit 1024; "
        "largest: one:0 to GPU:1 (1600 bytes, g.yaml:4:5)"
    )
    assert (ended.code, ended.output) == (1, f"g.yaml:4:5: max-transfer-bytes: {said}\n")


def test_steps_of_different_batches_count_their_own_bytes(shell: Shell) -> None:
    steps = "    feed: {x: {random_normal: [100, 4]}}\n  - fetch: [one]\n    feed: {x: {random_normal: [10, 4]}}\n"
    ended = shell("check", shell.write("g.yaml", UNKNOWN_SIZES + steps), "--rule", "max-transfer-bytes: 0")
    assert ended.output.startswith("g.yaml:3:5: max-transfer-bytes: 5120 bytes are transferred, limit 0; ")


def test_sizes_of_a_dry_run_leave_a_baseline_alone(shell: Shell) -> None:
    graph = shell.write("g.yaml", UNKNOWN_SIZES)
    shell.write("baseline.json", shell("place", graph, "--format", "json").output)
    rules = ("--rule", "baseline=baseline.json", "--rule", "max-transfer-bytes: 1GiB")
    assert shell("check", graph, *rules, "--batch", "100").code == 0


def test_a_written_device_is_one_finding_at_its_line(shell: Shell) -> None:
    nodes = """\
  - {op: Placeholder, name: x, dtype: float32, shape: [2, 4], device: /gpu:0}
  - device: /cpu:0
    nodes:
      - {variable: w, shape: [4, 4]}
      - {op: MatMul, name: y, inputs: [x, w]}
  - {op: Mean, name: loss, inputs: [y, [0, 1]], device: /gpu:0}
  - {train: {minimize: loss, optimizer: {Momentum: {learning_rate: 0.1, momentum: 0.9}}}, name: train}
"""
    graph = shell.write("g.yaml", f"devices: {{cpu: 1, gpu: 1}}\nnodes:\n{nodes}")
    ended = shell("check", graph, "--rule", "not-on-device: {nodes: ['w/', w, y], device: '/cpu:*'}")
    said = "device /cpu:0 of the scope around w puts 15 nodes on CPU:0, which must not be on /device:CPU:*: "
    assert (ended.code, ended.output.count("\n")) == (1, 1), ended.output
    assert ended.output.startswith(f"g.yaml:4:13: not-on-device: {said}"), ended.output


def test_a_scope_of_a_rule_includes_the_node_of_its_name(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {variable: step, shape: []}\n")
    rule = "not-on-device: {nodes: '*', device: '/cpu:*', except: [step/]}"
    assert shell("check", graph, "--rule", rule).output == ""


def test_a_variable_of_unknown_size_breaks_max_memory(shell: Shell) -> None:
    graph = shell.write("g.yaml", "nodes:\n  - {op: VarHandleOp, name: v, attrs: {dtype: float32, shape: [null, 4]}}\n")
    rule = "max-memory: 1GiB"
    ended = shell("check", graph, "--rule", rule)
    assert (ended.code, ended.output[:60]) == (1, "g.yaml:2:5: max-memory: v on CPU:0 has an unknown size: give")
    assert shell("check", graph, "--rule", "max-memory: {bytes: 1GiB, unknown: 1KiB}").code == 0


def test_a_baseline_names_new_transfers_at_their_lines(shell: Shell, tmp_path: Path) -> None:
    nodes = "nodes:\n  - {op: Const, name: a, value: [1.0, 2.0]}\n  - {op: Neg, name: b, inputs: [a], device: /gpu:1}\n"
    new = "  - {op: Neg, name: c, inputs: [b], device: /gpu:1}\n  - {op: Neg, name: d, inputs: [c], device: /gpu:0}\n"
    old = shell.write("old.yaml", "devices: {cpu: 1, gpu: 2}\n" + nodes)
    (tmp_path / "base.json").write_text(shell("place", old, "--format", "json").output, encoding="utf-8")
    graph = shell.write("g.yaml", "devices: {cpu: 1, gpu: 2}\n" + nodes + new)
    found = shell("check", graph, "--rule", f"baseline={tmp_path / 'base.json'}").output
    (line,) = [line for line in found.splitlines() if "GPU:1 -> GPU:0" in line]
    assert line.partition(" baseline: ")[0].endswith("g.yaml:5:5:")
    assert "new: c:0 to GPU:0 (8 bytes, " in line
