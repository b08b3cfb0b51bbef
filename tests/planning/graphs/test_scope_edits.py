"""A plan in a graph file's own text: few devices, all else as it was, and every node where the plan says."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from placesim.core.errors import InternalError, PlacesimError
from placesim.formats.device_annotations import assign_devices, clear_devices
from placesim.formats.graph_file.reader import read_graph_file
from placesim.formats.graph_file.sections.overrides import read_inventory
from placesim.formats.graph_file.writing.text_edits import EditableText
from placesim.formats.sources.loading import LoadedGraph
from placesim.graph.session_steps import GraphFile
from placesim.machine.device_names import DeviceName
from placesim.machine.inventory import DeviceSet, build_devices
from placesim.machine.options import make_options
from placesim.placement.placer import Placement
from placesim.planning.graphs.plan_annotations import annotate, clear_requests
from placesim.planning.graphs.problem_building import possible_devices
from placesim.planning.graphs.requests_by_name import request, request_text, text_by_name
from placesim.planning.graphs.scope_edits import annotated_text
from placesim.studies.simulation.simulation import SimulationStage, simulate

GRAPHS = sorted((Path(__file__).parents[3] / "graphs").glob("*.yaml"))
LARGE = ("alexnet", "cifar10-towers", "dataset")
"""Graphs of which fewer plans are drawn."""
LAYERS = """\
# two branches
devices: {cpu: 1, gpu: 3}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [4, 4]}  # what goes in
  - scope: left
    nodes:
      # the first of three
      - {op: MatMul, name: first, inputs: [x, x]}
      - {op: MatMul, name: second, inputs: [first, x]}
      - {op: Relu, name: third, inputs: [second]}
  - scope: right
    device: /cpu:0
    nodes: &layers
      - {op: MatMul, name: first, inputs: [x, x]}
      - op: MatMul
        name: second
        inputs: [first, [[1.0, 0.0, 0.0, 0.0]]]
        attrs: {transpose_b: true}
  - scope: far
    nodes: *layers
  - {op: ConcatV2, name: all, inputs: [left/third, right/second, far/second, 1]}
"""
CPU, GPU = "/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/replica:0/task:0/device:GPU:"


def placed(file: GraphFile, soft: bool) -> Placement:
    options = make_options({"soft_placement": soft, "gpu": None})
    report = simulate(LoadedGraph(file, Path()), options, SimulationStage.PLACED)
    if report.error is not None:
        raise report.error
    return report.placed[-1]


def devices_of(placement: Placement) -> dict[str, str]:
    nodes = zip(placement.graph.nodes, placement.devices, strict=True)
    return {node.name: device.name for node, device in nodes if device is not None}


@cache
def read(text: str, *, soft: bool, free: bool = True) -> tuple[GraphFile, Placement]:
    """The graph of a text, without its devices if they are `free`, and where its nodes are."""
    file = read_graph_file(text, "g.yaml")
    base = clear_devices(file) if free else file
    return base, placed(base, soft)


def written(text: str, planned: Mapping[str, str], *, soft: bool = False, free: bool = True) -> str | None:
    """The text with a plan; checked to place every node as annotations by node do."""
    base, first = read(text, soft=soft, free=free)
    asked = annotate(base, planned, first.device_set, soft=soft)
    found = annotated_text(text, base, asked, first.device_set, soft=soft)
    if found is not None:
        own = devices_of(placed(read_graph_file(found, "g.yaml"), soft))
        assert {name: own[name] for name in planned} == dict(planned)
    return found


def changes(before: str, after: str | None) -> list[str]:
    """The lines that are not in the other text, from those of both."""
    assert after is not None
    was, now = before.splitlines(), after.splitlines()
    return [f"-{line.strip()}" for line in was if line not in now] + [f"+{line.strip()}" for line in now if line not in was]


def test_a_scope_asks_for_all_that_is_in_it() -> None:
    names = ("left/first", "left/second", "left/third")
    found = written(LAYERS, dict.fromkeys(names, GPU + "1"))
    assert found == LAYERS.replace("    device: /cpu:0\n", "").replace(
        "  - scope: left\n", "  - scope: left\n    device: /gpu:1\n"
    )


def test_a_node_asks_for_what_its_scope_does_not() -> None:
    planned = {"left/first": GPU + "1", "left/second": GPU + "2", "left/third": GPU + "1"}
    found = written(LAYERS, planned)
    assert changes(LAYERS, found) == [
        "-- {op: MatMul, name: second, inputs: [first, x]}",
        "-device: /cpu:0",
        "+device: /gpu:1",
        "+- {op: MatMul, name: second, inputs: [first, x], device: /gpu:2}",
    ]


def test_requests_that_the_plan_keeps_stay_as_they_are() -> None:
    text = LAYERS.replace("    device: /cpu:0\n", "").replace(
        "  - scope: left\n", "  - scope: left\n    device: /gpu:1  # mine\n"
    )
    text = text.replace("name: third, inputs: [second, x]", "name: third, inputs: [second, x], device: /gpu:1")
    planned = {"left/first": GPU + "2", "left/second": GPU + "1", "left/third": GPU + "1"}
    assert changes(text, written(text, planned)) == ["+- {op: MatMul, name: first, inputs: [x, x], device: /gpu:2}"]


def test_scopes_that_share_their_nodes_ask_for_different_devices() -> None:
    planned = {f"{scope}/{name}": GPU + n for scope, n in (("right", "1"), ("far", "2")) for name in ("first", "second")}
    found = written(LAYERS, planned)
    assert found is not None
    assert "*layers" in found
    assert changes(LAYERS, found) == ["-device: /cpu:0", "+device: /gpu:1", "+device: /gpu:2"]


def test_scopes_that_can_share_their_nodes_no_more_get_their_own() -> None:
    found = written(
        LAYERS, {"right/first": GPU + "1", "right/second": GPU + "0", "far/first": GPU + "0", "far/second": GPU + "2"}
    )
    assert found is not None
    assert "*layers" not in found
    assert found.count("device: ") == 2
    assert found.startswith(LAYERS[: LAYERS.index("  - scope: left")])


def test_a_literal_that_goes_elsewhere_becomes_a_constant() -> None:
    found = written(LAYERS, {"far/second/b": GPU + "2", "far/second": GPU + "1"})
    assert found is not None
    assert "- {op: Const, name: second/b, dtype: float, value: [[1.0, 0.0, 0.0, 0.0]], device: /gpu:2}" in found


def test_nodes_without_a_scope_get_one_where_that_says_it_once() -> None:
    nodes = "".join(f"  - {{op: Relu, name: r{n}, inputs: [{f'r{n - 1}' if n else 'x'}]}}  # {n}\n" for n in range(6))
    first = "  - {op: Placeholder, name: x, dtype: float32, shape: [4]}\n"
    text = f"devices: {{cpu: 1, gpu: 2}}\nnodes:\n{first}{nodes}fetch: [r5]\n"
    found = written(text, {f"r{n}": GPU + ("1" if 1 < n < 5 else "0") for n in range(6)})
    assert found is not None
    inside = "".join(f"      - {{op: Relu, name: r{n}, inputs: [r{n - 1}]}}  # {n}\n" for n in range(2, 5))
    lines = text.splitlines(keepends=True)
    assert found == "".join(lines[:5]) + f"  - device: /gpu:1\n    nodes:\n{inside}" + "".join(lines[8:])


def test_nodes_of_a_scope_get_one_of_their_own_where_the_scope_would_move_another() -> None:
    nodes = "".join(f"      - {{op: Relu, name: r{n}, inputs: [/x]}}\n" for n in range(4))
    first = "  - {op: Placeholder, name: x, dtype: float32, shape: [4]}\n"
    text = f"devices: {{cpu: 1, gpu: 2}}\nnodes:\n{first}  - scope: s\n    nodes:\n{nodes}"
    found = written(text, {f"s/r{n}": GPU + ("1" if n < 3 else "0") for n in range(4)})
    assert found is not None
    assert [line for line in found.splitlines() if "device: " in line] == ["      - device: /gpu:1"]


def test_what_is_asked_for_and_held_stays_as_it_was_written() -> None:
    text = LAYERS.replace(
        "name: first, inputs: [x, x]}\n      - {op: MatMul, name: second",
        "name: first, inputs: [x, x], device: '/gpu:*'}\n      - {op: MatMul, name: second",
    )
    found = written(text, {"left/third": GPU + "2"}, free=False)
    assert found is not None
    assert "device: '/gpu:*'" in found
    assert "    device: /cpu:0\n" in found


def test_with_soft_placement_a_scope_asks_for_what_some_of_it_can_not_have() -> None:
    text = """\
devices: {cpu: 1, gpu: 2}
nodes:
  - scope: tower
    nodes:
      - {op: Const, name: a, value: [1.0, 2.0]}
      - {op: Neg, name: b, inputs: [a]}
      - {op: AsString, name: text, inputs: [b]}
"""
    planned = {"tower/a": GPU + "1", "tower/b": GPU + "1", "tower/text": CPU}
    assert changes(text, written(text, planned, soft=True)) == ["+device: /gpu:1"]
    strict = written(text, planned)
    assert strict is not None
    assert strict.count("device: ") <= 2


def test_tasks_are_named_where_there_are_several() -> None:
    text = "devices: [{job: worker, tasks: 2, cpu: 1, gpu: 1}]\nnodes:\n  - {op: Const, name: a, value: 1.0}\n"
    found = written(text, {"a": "/job:worker/replica:0/task:1/device:GPU:0"})
    assert changes(text, found)[1:] == ["+- {op: Const, name: a, value: 1.0, device: /job:worker/task:1/device:GPU:0}"]


def test_json_stays_json() -> None:
    import json

    text = '{"devices": {"cpu": 1, "gpu": 2}, "nodes": [{"op": "Const", "name": "a", "value": 1.5}]}'
    found = written(text, {"a": GPU + "1"})
    assert found is not None
    assert json.loads(found)["nodes"] == [{"op": "Const", "name": "a", "value": 1.5, "device": "/gpu:1"}]


def test_raw_files_have_no_scopes() -> None:
    text = "raw: true\ndevices: {cpu: 1, gpu: 2}\nnodes:\n  - {op: Const, name: a, dtype: float, shape: [], value: 1.0}\n"
    assert written(text, {"a": GPU + "1"}) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "seed"),
    [(path, seed) for path in GRAPHS for seed in range(4 if path.stem not in LARGE else 2)],
    ids=lambda value: getattr(value, "stem", value),
)
def test_any_plan_of_any_graph_is_said_by_no_more_new_devices_than_by_node(path: Path, seed: int) -> None:
    draw = random.Random(seed)
    text = path.read_text().replace("gpu: 1}", "gpu: 2}")
    try:
        file, first = read(text, soft=True)
    except PlacesimError:
        pytest.skip("it can't be placed")
    names, planned, last = [device.name for device in first.device_set.devices], {}, {}
    for group in possible_devices(first):
        scope = group.nodes[0].split("/")[0]
        if scope not in last or draw.random() < (1, 0.1)[seed % 2]:
            last[scope] = draw.randrange(len(names))
        planned.update(dict.fromkeys(group.nodes, names[group.choices[last[scope] % len(group.choices)]]))
    planned = {name: device for name, device in planned.items() if name in file.graph.ids and not name.startswith("init")}
    asked = annotate(file, planned, first.device_set, soft=True)
    found = written(text, planned, soft=True)
    # what a list of devices repeats, and what one entry makes, can't have others one by one: they are told by name
    if found is None:
        assert path.stem in ("towers", "pipeline") or re.search(r"\b(gradients|train|cond|while):[ \n]", text)
        by_name = text_by_name(text, file, placed(assign_devices(file, asked), soft=True), soft=True)
        assert by_name is not None
        assert by_name.startswith(text)
        own = devices_of(placed(read_graph_file(by_name, "g.yaml"), soft=True))
        assert {name: own[name] for name in planned} == planned
        return
    if found == text:
        return
    requests = [Counter(re.findall(r"\bdevice: ([^,}\s]+)", one)) for one in (found, text)]
    assert (requests[0] - requests[1]).total() <= max(1, len(asked))
    assert [line for line in found.splitlines() if line.startswith("#")] == [
        line for line in text.splitlines() if line.startswith("#")
    ]


COPIES = """\
devices: {cpu: 1, gpu: 3}
nodes:
  - {op: Const, name: x, value: [1.0, 2.0]}
  - scope: tower
    device: [/gpu:0, /gpu:1]
    nodes:
      - {op: Neg, name: a, inputs: [x]}
      - {op: Exp, name: b, inputs: [a]}
"""


def test_a_list_of_devices_has_one_for_each_copy() -> None:
    planned = {"tower/a": GPU + "2", "tower/b": GPU + "2", "tower_1/a": GPU + "0", "tower_1/b": GPU + "0"}
    found = written(COPIES, planned)
    assert changes(COPIES, found) == ["-device: [/gpu:0, /gpu:1]", "+device: ['/gpu:2', '/gpu:0']"]


def test_a_text_that_says_a_plan_stays_as_it_is() -> None:
    # the scope's device is more than is needed: the CPU is the only other one
    planned = dict.fromkeys(("tower/a", "tower/b"), GPU + "0") | dict.fromkeys(("tower_1/a", "tower_1/b"), GPU + "1")
    assert written(COPIES, planned, free=False) == COPIES


def test_a_text_that_is_too_long_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = {"left/third": GPU + "2"}
    for most, is_said in ((len(LAYERS), True), (len(LAYERS) - 1, False)):
        monkeypatch.setattr("placesim.planning.graphs.scope_edits.MAX_CHARACTERS", most)
        assert (written(LAYERS, planned) is not None) == is_said


COLOCATED = """\
devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Const, name: x, value: [1.0, 2.0]}
  - scope: s
    nodes:
      - {op: Neg, name: a, inputs: [x]}
      - {op: Exp, name: b, inputs: [a], colocate_with: [a]}
      - {op: Log, name: c, inputs: [b]}
"""


def test_what_is_colocated_follows_and_asks_for_nothing() -> None:
    found = written(COLOCATED, {"s/a": GPU + "1", "s/b": GPU + "1", "s/c": CPU})
    assert changes(COLOCATED, found) == [
        "-- {op: Neg, name: a, inputs: [x]}",
        "+device: /cpu:0",
        "+- {op: Neg, name: a, inputs: [x], device: /gpu:1}",
    ]


def test_a_plan_that_the_text_can_not_say_is_said_by_names() -> None:
    text = COPIES
    planned = {"tower/a": GPU + "2", "tower/b": GPU + "0", "tower_1/a": GPU + "1", "tower_1/b": GPU + "0"}
    file = clear_devices(read_graph_file(text, "g.yaml"))
    first = placed(file, soft=False)
    asked = annotate(file, planned, first.device_set, soft=False)
    by_name = text_by_name(text, file, placed(assign_devices(file, asked), soft=False), soft=False)
    assert by_name is not None
    assert by_name.startswith(text)
    own = devices_of(placed(read_graph_file(by_name, "g.yaml"), soft=False))
    assert {name: own[name] for name in planned} == planned
    rows = by_name[len(text) :].splitlines()
    # the list's own devices are kept for what they fit
    assert rows == ["placement:", "  tower/a: /gpu:2", "  tower_1/b: /gpu:0"]


TRAINED = """\
devices: {cpu: 1, gpu: 2}
nodes:
  - {op: Placeholder, name: x, dtype: float32, shape: [4, 4]}
  - scope: left
    nodes:
      - {variable: w, shape: [4, 4]}
      - {op: MatMul, name: h, inputs: [x, w]}
  - scope: right
    nodes:
      - {variable: w, shape: [4, 4]}
      - {op: MatMul, name: h, inputs: [left/h, w]}
  - {op: Mean, name: loss, inputs: [right/h, [0, 1]]}
  - name: train
    train: {minimize: loss, optimizer: {GradientDescent: {learning_rate: 0.1}}, colocate_gradients_with_ops: true}
fetch: [train]
"""


def test_nodes_that_follow_other_nodes_have_no_rows() -> None:
    # x follows its reader, and the updates follow the variable
    rows = ("x", "left/", "gradients/left/", "train/update_left/")
    longer = EditableText(TRAINED).with_placement(dict.fromkeys(rows, "/gpu:1"))
    planned = placed(read_graph_file(longer, "g.yaml"), soft=False)
    file = read_graph_file(TRAINED, "g.yaml")
    by_name = text_by_name(TRAINED, file, planned, soft=False)
    assert by_name is not None
    assert by_name[len(TRAINED) :].splitlines() == ["placement:", "  left/: /gpu:1", "  gradients/left/h_grad/: /gpu:1"]
    assert devices_of(placed(read_graph_file(by_name, "g.yaml"), soft=False)) == devices_of(planned)
    assert set(devices_of(planned).values()) == {GPU + "0", GPU + "1"}


def test_requests_are_as_short_as_the_machine_allows() -> None:
    one, several = (
        DeviceSet(build_devices(read_inventory({"devices": devices})[0]))
        for devices in ({"cpu": 1, "gpu": 1}, [{"job": "worker", "tasks": 2, "cpu": 1}])
    )
    name = "/job:worker/replica:0/task:1/device:CPU:0"
    assert request_text(request(GPU + "0", one)) == "/gpu:0"
    assert request_text(request(name, several)) == "/job:worker/task:1/device:CPU:0"
    assert request_text(DeviceName(type="TPU", id=1)) == "/device:TPU:1"
    assert request_text(DeviceName(job="worker", type="CPU", id=1)) == "/job:worker/device:CPU:1"


def test_annotations_are_as_few_as_make_the_placer_follow() -> None:
    text = "devices: {cpu: 1, gpu: 2}\nnodes:\n" + "".join(
        f"  - {{op: Neg, name: n{n}, inputs: [{f'n{n - 1}' if n else 'x'}]}}\n" for n in range(3)
    )
    text = text.replace("nodes:\n", "nodes:\n  - {op: Placeholder, name: x, dtype: float32, shape: [4]}\n")
    file = read_graph_file(text, "g.yaml")
    first = placed(file, soft=False)
    assert annotate(file, {}, first.device_set, soft=False) == {}
    assert annotate(file, {"n0": GPU + "0"}, first.device_set, soft=False) == {}
    assert annotate(file, {"n1": GPU + "1", "n2": GPU + "0"}, first.device_set, soft=False) == {"n1": GPU + "1"}
    with pytest.raises(InternalError, match=r"n1 cannot be placed on .*GPU:7, its planned device"):
        annotate(file, {"n1": GPU + "7"}, first.device_set, soft=True)
    with pytest.raises(PlacesimError, match="GPU:7"):
        annotate(file, {"n1": GPU + "7"}, first.device_set, soft=False)
    asked = read_graph_file(LAYERS.replace("name: third", "device: /gpu:0, name: third"), "g.yaml")
    cleared = [clear_requests(asked, patterns) for patterns in ([], ["right/*"], ["*"])]
    assert [{node.name for node in file.graph.nodes if node.device} for file in cleared] == [
        {"left/third", "right/first", "right/second", "right/second/b"}, {"left/third"}, set()
    ]  # fmt: skip


def test_an_initializer_waits_on_as_many_devices_as_there_are_variables_on() -> None:
    """With variables on two GPUs it has a group for each, which the text as it came does not have."""
    text = """\
devices: {cpu: 1, gpu: 2}
nodes:
  - {variable: v, shape: [2], initializer: zeros}
  - {variable: w, shape: [2], initializer: zeros}
  - {initializer: init}
"""
    found = written(text, {"v": GPU + "0", "w": GPU + "1"})
    assert changes(text, found) == [
        "-- {variable: w, shape: [2], initializer: zeros}",
        "+- {variable: w, shape: [2], initializer: zeros, device: /gpu:1}",
    ]
    assert found is not None
    groups = [node.name for node in read_graph_file(found, "g.yaml").graph.nodes if node.op == "NoOp"]
    assert groups == ["init/NoOp", "init/NoOp_1", "init"]
