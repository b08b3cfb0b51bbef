"""Scopes, ids, literals, variables, loops, steps, devices and config of a graph file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from placesim.core.errors import GraphFileError
from placesim.formats.graph_file.reader import graph_file_from_mapping, read_graph_file
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Config, Feed, FileFeed, GeneratedFeed, ThreadPoolOptions
from placesim.machine.gpu_models import GPU_MODELS, MIB
from placesim.machine.gpu_options import GpuOptions, VirtualDevices
from placesim.machine.inventory import TaskInventory
from tests.formats.readings import exact

X = "{op: Const, name: x, value: [1.0, 2.0], dtype: float64}"
BUILT = {
    "literal takes the type of what is before it": (
        f"[{X}, {{op: Add, name: sum, inputs: [x, 2.0], device: /gpu:1}}]",
        ["x Const", "sum/y Const @/device:GPU:1", "sum Add(x, sum/y) @/device:GPU:1"],
    ),
    "literals in a list are numbered": (
        f"[{X}, {{op: AddN, inputs: [x, 1.0, [3, 4]]}}]",
        ["x Const", "AddN/inputs_1 Const", "AddN/inputs_2 Const", "AddN AddN(x, AddN/inputs_1, AddN/inputs_2)"],
    ),
    "an id is bound again": (
        f"[{X}, {{op: Neg, id: x, inputs: [x]}}, {{op: Neg, inputs: [x]}}]",
        ["x Const", "Neg Neg(x)", "Neg_1 Neg(Neg)"],
    ),
    "a name is looked up from the inside": (
        f"[{X}, {{scope: s, nodes: [{{op: Neg, name: x, inputs: [x]}}, {{op: Neg, inputs: [x]}}]}},"
        " {op: Neg, inputs: [s/x]}]",
        ["x Const", "s/x Neg(x)", "s/Neg Neg(s/x)", "Neg Neg(s/x)"],
    ),
    "an id of a repeated scope stands for its copies": (
        f"[{X}, {{device: [/gpu:0, /gpu:1], scope: t, nodes: [{{op: Neg, id: z, inputs: [x]}}]}}, {{op: AddN, inputs: [z]}}]",
        ["x Const", "t/Neg Neg(x) @/device:GPU:0", "t_1/Neg Neg(x) @/device:GPU:1", "AddN AddN(t/Neg, t_1/Neg)"],
    ),
    "a copy's number stands for {i}": (
        f"[{X}, {{op: Split, name: xs, inputs: [0, x], attrs: {{num_split: 2}}}},"
        " {device: [/cpu:0, /cpu:1], scope: 't_{i}', nodes: [{op: Neg, name: 'n{i}', inputs: ['xs:{i}']}]}]",
        [
            "x Const",
            "xs/split_dim Const",
            "xs Split(xs/split_dim, x)",
            "t_0/n0 Neg(xs) @/device:CPU:0",
            "t_1/n1 Neg(xs:1) @/device:CPU:1",
        ],
    ),
    "{i} belongs to the innermost repeated scope, its list of devices to the one around": (
        "[{device: [/job:a, /job:b], nodes:"
        " [{device: ['/task:{i}', /task:7], scope: 's{i}', nodes: [{op: NoOp, name: 'n{i}'}]}]}]",
        [
            "s0/n0 NoOp @/job:a/task:0",
            "s1/n1 NoOp @/job:a/task:7",
            "s0_1/n0 NoOp @/job:b/task:1",
            "s1_1/n1 NoOp @/job:b/task:7",
        ],
    ),
    "colocation before device": (
        "[{op: NoOp, name: a, device: /gpu:1}, {op: NoOp, name: b}, {op: NoOp, name: c, colocate_with: [b, a], device: /cpu:0},"
        " {op: NoOp, name: d, colocate_with: b, device: /cpu:0}]",
        ["a NoOp @/device:GPU:1", "b NoOp", "c NoOp @/device:GPU:1 loc:@a loc:@b", "d NoOp @/device:CPU:0 loc:@b"],
    ),
    "control inputs are sorted and once": (
        "[{op: NoOp, name: b}, {op: NoOp, name: a}, {op: NoOp, name: c, inputs: [^b], control_inputs: [b, a]}]",
        ["b NoOp", "a NoOp", "c NoOp(^a, ^b)"],
    ),
    "a loop": (
        "[{op: Const, name: i, value: 0}, {op: Enter, name: e, inputs: [i], attrs: {frame_name: f}},"
        " {op: Merge, name: m, inputs: [e, n]}, {op: NextIteration, name: n, inputs: [m]}]",
        ["i Const", "e Enter(i)", "m Merge(e, n)", "n NextIteration(m)"],
    ),
    "names of other cases, and those that end in a slash": (
        "[{op: NoOp, name: a}, {op: NoOp, name: A}, {op: NoOp}, {op: NoOp}, {op: NoOp, name: z/},"
        " {scope: s/, nodes: [{op: NoOp}]}]",
        ["a NoOp", "A_1 NoOp", "NoOp NoOp", "NoOp_1 NoOp", "z NoOp", "s/NoOp NoOp"],
    ),
    "aliases and merge keys": (
        "[&n {op: NoOp, device: /cpu:0}, *n, {<<: *n, device: /gpu:0}]",
        ["NoOp NoOp @/device:CPU:0", "NoOp_1 NoOp @/device:CPU:0", "NoOp_2 NoOp @/device:GPU:0"],
    ),
    "a ref input colocates, its literals stay outside": (
        "[{variable: v, shape: [], device: /cpu:1, initializer: zeros},"
        " {device: /gpu:0, nodes: [{op: ApplyGradientDescent, name: M, inputs: [v, 0.5, v]}]}]",
        [
            "v/Initializer/zeros Const loc:@v",
            "v VariableV2 @/device:CPU:1 loc:@v",
            "v/Assign Assign(v, v/Initializer/zeros) @/device:CPU:1 loc:@v",
            "v/read Identity(v) @/device:CPU:1 loc:@v",
            "M/alpha Const @/device:GPU:0",
            "M ApplyGradientDescent(v, M/alpha, v/read) @/device:CPU:1 loc:@v",
        ],
    ),
    "initializers on two devices": (
        "[{variable: v, shape: [], device: /cpu:0, initializer: zeros},"
        " {variable: w, shape: [], device: /cpu:1, initializer: zeros}, {initializer: init}]",
        [
            "init/NoOp NoOp(^v/Assign) @/device:CPU:0",
            "init/NoOp_1 NoOp(^w/Assign) @/device:CPU:1",
            "init NoOp(^init/NoOp, ^init/NoOp_1)",
        ],
    ),
}


def lines(graph: Graph) -> list[str]:
    """`NAME OP(inputs) @DEVICE LABELS` for each node."""
    return [
        f"{node.name} {node.op}"
        + (f"({', '.join(graph.input_texts(node))})" if graph.input_texts(node) else "")
        + (f" @{node.device}" if node.device else "")
        + "".join(f" {label}" for label in node.attrs.get("_class", ()))
        for node in graph.nodes
    ]


@pytest.mark.parametrize("case", BUILT)
def test_built(case: str) -> None:
    text, expected = BUILT[case]
    built = lines(read_graph_file(f"nodes: {text}").graph)
    assert built[-len(expected) :] == expected


def test_steps_expand_and_can_be_added_later() -> None:
    file = read_graph_file(
        "nodes: [{op: Const, name: a, value: 1.0}]\n"
        "run:\n"
        "  - {fetch: [a], repeat: 3, feed: {a: 2}}\n"
        "  - {nodes: [{op: Neg, id: n, inputs: [a]}], fetch: [n], feed: {a: {random_normal: [2], seed: 1}}}\n"
        "  - {nodes: [{op: Mul, inputs: [n, 3]}], fetch: ['Mul:0'], feed: {a: {file: x.npy}}}\n"
    )
    assert file.steps is not None
    first, second, third = file.steps
    assert (first.repeat, [fetch.name for fetch in first.fetches]) == (3, ["a"])
    assert first.feeds[0].value.dtype == np.float32
    assert second.feeds[0] == Feed("a", GeneratedFeed("random_normal", (2,), 1), second.feeds[0].location)
    assert third.feeds[0].value == FileFeed("x.npy")
    assert lines(file.graph) == ["a Const"]
    file.graph.extend(second.nodes)
    file.graph.extend(third.nodes)
    assert lines(file.graph) == ["a Const", "Neg Neg(a)", "Mul/y Const", "Mul Mul(Neg, Mul/y)"]


def test_variables_as_fetches() -> None:
    text = "nodes: [{variable: r, shape: [], kind: resource}, {variable: v, shape: []}]\nfetch: [r, v]\n"
    steps = read_graph_file(text).steps
    assert steps is not None
    assert [fetch.name for fetch in steps[0].fetches] == ["r/Read/ReadVariableOp", "v"]


def test_arrays_in_a_mapping() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    file = graph_file_from_mapping({"nodes": [{"op": "Const", "name": "a", "value": array}], "run": [{"feed": {"a": array}}]})
    assert file.graph.node("a").attrs["value"].array is array
    assert file.steps is not None
    assert file.steps[0].feeds[0].value is array


INVENTORIES = {
    "{cpu: 3, gpu: 2}": (TaskInventory(cpu=3, gpu=2),),
    "{gpu: {count: 4, model: Tesla K20m, memory: 4800MiB}, xla_cpu: 1}": (
        TaskInventory(gpu=4, gpu_model=GPU_MODELS["Tesla K20m"]._replace(memory=4800 * MIB), xla_cpu=1),
    ),
    "[{job: ps, tasks: 2, cpu: 1}, {job: worker, gpu: 8}]": (
        TaskInventory(job="ps", tasks=2),
        TaskInventory(job="worker", gpu=8),
    ),
}


def test_a_cpus_memory() -> None:
    (entry,) = read_graph_file("devices: {cpu: {count: 2, memory: 8GiB}}\nnodes: []").inventory or ()
    assert entry == TaskInventory(cpu=2, cpu_memory=8192 * MIB)
    (entry,) = read_graph_file("devices: {cpu: {memory: 1GiB}}\nnodes: []").inventory or ()
    assert entry == TaskInventory(cpu_memory=1024 * MIB)


@pytest.mark.parametrize("text", INVENTORIES)
def test_devices(text: str) -> None:
    assert read_graph_file(f"devices: {text}\nnodes: []").inventory == INVENTORIES[text]


def test_config() -> None:
    text = (
        "config: {allow_soft_placement: true, device_count: {GPU: 1}, gpu_options: {allow_growth: true},"
        " graph_options: {place_pruned_graph: true, optimizer_options: {do_constant_folding: true}},"
        " session_inter_op_thread_pool: [{num_threads: 2}]}\nnodes: []"
    )
    assert read_graph_file(text).config == Config(
        allow_soft_placement=True,
        device_count=(("GPU", 1),),
        gpu_options=GpuOptions(allow_growth=True),
        place_pruned_graph=True,
        do_constant_folding=True,
        session_inter_op_thread_pool=(ThreadPoolOptions(2),),
    )


GPU_CONFIG = """
config:
  gpu_options:
    allow_growth: true
    per_process_gpu_memory_fraction: 0.5
    visible_device_list: 1,0
    allocator_type: BFC
    experimental:
      virtual_devices:
        - {memory_limit_mb: [2048, 1024.5], priority: [-1, 0], device_ordinal: [1, 0]}
        - {}
      internal_fragmentation_fraction: 0.05
      disallow_retry_on_allocation_failure: true
      gpu_system_memory_size_in_mb: 600
      num_virtual_devices_per_gpu: 2
      use_unified_memory: true
nodes: []
"""


def test_gpu_options() -> None:
    config = read_graph_file(GPU_CONFIG, "f.yaml").config
    assert config.gpu_options == GpuOptions(
        allow_growth=True,
        per_process_gpu_memory_fraction=0.5,
        visible_device_list="1,0",
        allocator_type="BFC",
        virtual_devices=(VirtualDevices((2048, 1024.5), (-1, 0), (1, 0)), VirtualDevices()),
        internal_fragmentation_fraction=0.05,
        disallow_retry_on_allocation_failure=True,
        gpu_system_memory_size_in_mb=600,
        num_virtual_devices_per_gpu=2,
        use_unified_memory=True,
    )
    assert str(config.gpu_options_location) == "f.yaml:4:5"


def test_raw_and_functions_may_follow_the_nodes() -> None:
    nodes = [{"op": "Neg", "name": "b", "inputs": ["a"], "attrs": {"T": "float"}}, {"op": "f", "name": "a", "device": "/FOO"}]
    function = {
        "name": "f",
        "inputs": [],
        "outputs": [{"name": "y", "type": "float", "value": "c:output:0"}],
        "nodes": [{"op": "Const", "name": "c", "value": 1.0}],
    }
    first = {"raw": True, "functions": [function], "nodes": nodes}
    last = {"nodes": nodes, "functions": [function], "raw": True}
    assert exact(read_graph_file(json.dumps(first)).graph) == exact(read_graph_file(json.dumps(last)).graph)
    assert read_graph_file(json.dumps(last)).graph.node("a").device == "/FOO"


def test_nodes_keep_their_place() -> None:
    graph = read_graph_file("nodes:\n  - {op: NoOp}\n  - device: /cpu:0\n    nodes:\n      - {op: NoOp}\n", "f.yaml").graph
    assert [str(graph.location(node)) for node in graph.nodes] == ["f.yaml:2:5", "f.yaml:5:9"]


@pytest.mark.parametrize("written", ["'{i}'", "{i}"])
def test_the_number_of_a_copy_is_a_number_where_it_stands_alone(written: str) -> None:
    attrs = f"{{_copy: {written}, _text: 'copy {{i}}', _written: '{{{{i}}}} {{i}}'}}"
    node = f"{{op: Const, name: {written}, value: [{written}, 5], attrs: {attrs}}}"
    graph = read_graph_file(f"nodes: [{{device: [/cpu:0, /cpu:1], scope: s, nodes: [{node}]}}]").graph
    assert [graph.node(name).attrs["value"].array.tolist() for name in ("s/0", "s_1/1")] == [[0, 5], [1, 5]]
    assert [graph.node("s_1/1").attrs[key] for key in ("_copy", "_text", "_written")] == [1, "copy 1", "{i} 1"]


def test_what_is_wrong_in_a_copy_is_said_at_its_place() -> None:
    text = "nodes:\n  - device: [/cpu:0, /cpu:1]\n    nodes:\n      - {op: Neg, inputs: ['xs:{i}']}\n"
    with pytest.raises(GraphFileError, match=r"f.yaml:4:28: unknown node: got 'xs:0'"):
        read_graph_file(text, "f.yaml")


def test_repeated_scopes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placesim.formats.graph_file.entries.scope_entries.MAX_EXPANSION", 20)
    inner = "{device: [/cpu:0, /cpu:1, /cpu:2, /cpu:3, /cpu:4], nodes: [{op: NoOp}]}"
    with pytest.raises(Exception, match="too many copies of scopes"):
        read_graph_file(f"nodes: [{{device: [/cpu:0, /cpu:1, /cpu:2, /cpu:3, /cpu:4], nodes: [{inner}]}}]")


@pytest.mark.parametrize("name", ["x:²", "x:" + "9" * 5000, "x:٣"])
def test_a_number_that_is_none_is_part_of_the_name(name: str) -> None:
    with pytest.raises(GraphFileError, match="Unknown input node"):
        graph_file_from_mapping({"raw": True, "nodes": [{"op": "NoOp", "name": "y", "inputs": [name]}]})


def test_a_node_that_reads_itself_is_a_cycle() -> None:
    node = {"op": "Identity", "name": "a", "inputs": ["a"], "attrs": {"T": "float"}}
    with pytest.raises(GraphFileError, match="cycle: got a -> a"):
        graph_file_from_mapping({"raw": True, "nodes": [node]})


def test_an_alias_instead_of_a_file() -> None:
    with pytest.raises(GraphFileError, match=r"unknown alias: got '\*a'"):
        read_graph_file("*a {nodes: []}", "g.yaml")


def test_an_op_of_old_graphs_is_refused_as_pythons_graph_refuses_it() -> None:
    nodes = "[{op: Const, name: x, value: [3.0, 1.0]}, {op: TopK, inputs: [x], attrs: {k: 1}}, {op: TopK, inputs: [x]}]"
    with pytest.raises(GraphFileError) as raised:
        read_graph_file(f"nodes: {nodes}", "g.yaml")
    message = "Op TopK is not available in GraphDef version 2474. It has been removed in version 7. Use TopKV2 instead."
    assert [(p.message, p.error) for p in raised.value.problems] == [(message, "UnimplementedError")] * 2
    assert (
        len(
            read_graph_file(
                "{raw: true, nodes: [{op: Const, name: x, dtype: float, value: [3.0, 1.0]}, "
                "{op: TopK, name: t, inputs: [x], attrs: {k: 1, T: float}}]}"
            ).graph
        )
        == 2
    )


def test_a_name_in_a_function_that_is_no_text() -> None:
    nodes = [{"name": {}, "op": "NoOp"}, {"op": "NoOp"}]
    with pytest.raises(GraphFileError):
        graph_file_from_mapping(
            {"nodes": [], "functions": [{"name": "F", "inputs": [], "outputs": [], "nodes": nodes}]}, "f.yaml"
        )
    with pytest.raises(GraphFileError):
        graph_file_from_mapping({"functions": [{"name": "F", "nodes": [{"name": {}}]}]}, "f.yaml")


# --- placement ------------------------------------------------------------------------------------------------------

PLACED = """\
nodes:
  - scope: a
    device: /job:ps
    nodes:
      - {id: x, op: Const, name: c, value: 1.0}
      - {op: Neg, name: n, inputs: [x]}
  - {op: Neg, name: b, inputs: [x], device: /cpu:0}
placement:
"""


def test_the_last_row_that_fits_a_node_counts_over_its_entry_and_scopes() -> None:
    graph = read_graph_file(PLACED + "  a/: /gpu:0\n  '*': /gpu:1\n  x: null\n  a/n: /gpu:2\n").graph
    assert {node.name: node.device for node in graph.nodes} == {"a/c": "", "a/n": "/device:GPU:2", "b": "/device:GPU:1"}
    # `explain` points to the row
    (row,) = [scope for scope in graph.device_scopes if scope.end == 2 and scope.device == "/device:GPU:2"]
    place = graph.located(row.location)
    assert place is not None
    assert place.line == 12


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("d: /gpu:0", "9:3: no node matches 'placement': got 'd', expected a node's name or id, or a pattern that matches one"),
        (
            "a/nn: /gpu:0",
            "9:3: no node matches 'placement': got 'a/nn', expected a node's name or id, or a pattern that matches one; did",
        ),
        ("b: 1", "9:6: wrong type in 'placement': got 1, expected a device specification"),
        ("b: /cup:0", "9:6: "),
        ("1: /cpu:0", "9:3: wrong type in 'placement': got 1, expected a node's name, an id or a pattern"),
        ("- b", "9:3: wrong type of 'placement'"),
    ],
)
def test_a_wrong_row_of_placement_is_located(row: str, message: str) -> None:
    with pytest.raises(GraphFileError) as caught:
        read_graph_file(PLACED + f"  {row}\n", "g.yaml")
    assert f"g.yaml:{message}" in caught.value.message
