"""Walks through steps: the same as numpy executes, and what they take where values are not known."""

from __future__ import annotations

import gc
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placesim.core.errors import OpError, UsageError
from placesim.formats.sources.loading import load
from placesim.machine.memory.buffers import Buffer
from placesim.machine.options import make_options
from placesim.ops.kernels.abstract_tensor import SketchedValueError
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.text.timing import time_document
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.dry_runs.assumptions import BranchChoice
from placesim.runtime.recording.recorder import Execution, ExecutionRecorder
from placesim.runtime.sessions.session import GraphSession
from placesim.studies.dry_run import DryRun, run_dry, search_dry_run
from placesim.studies.simulation.simulation import SimulationStage, simulate
from placesim.studies.time_study import study_time
from tests.examples import examples
from tests.runtime.executors.test_dataflow import cond, loop
from tests.runtime.sessions.models import with_small_layers

DATA = Path(__file__).parent.parent / "data"
Source = dict[str, Any]
Nodes = list[dict[str, Any]]


def size(walked: DryRun) -> float:
    """The elements of all inputs of what ran: what these tests compare branches by."""
    shapes = (dims for step in walked.recorder.steps for execution in step for dims, _ in execution.inputs)
    return float(sum(int(np.prod(dims)) for dims in shapes))


def walked(source: Source, **values: Any) -> DryRun:
    options = make_options(values)
    found = search_dry_run(load(source, None, options), options, size)
    if found.outcome.error is not None:
        raise found.outcome.error
    return found


def executed(source: Source, **values: Any) -> ExecutionRecorder:
    recorder, options = ExecutionRecorder(), make_options({"inter_op_threads": 1, **values})
    report = simulate(load(source, None, options), options, SimulationStage.EXECUTED, tells_memory=True, recorder=recorder)
    if report.error is not None:
        raise report.error
    return recorder


def rows_of(recorder: ExecutionRecorder) -> list[list[tuple[Any, ...]]]:
    """What ran where, on which shapes, after what."""

    def row(execution: Execution) -> tuple[Any, ...]:
        site = execution.site
        return (None if site is None else (site.name, site.program.state.device.name), *execution[1:])

    return [[row(execution) for execution in step] for step in recorder.steps]


def study(source: Source, *, is_executed: bool = False, warned: list[str] | None = None, **values: Any) -> TimeStudy:
    options = make_options(values)
    said: list[str] = [] if warned is None else warned
    return study_time(load(source, None, options), options, "graph", is_executed=is_executed, warn=said.append)


# --- as numpy executes it ------------------------------------------------------------------------------------------


def recordings() -> dict[str, Source]:
    """Recorded graphs, some of those of lists."""
    found = {}
    for name, stride in (("placement-models", 1), ("placement-functions", 1), ("list-graphs", 12)):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in itertools.islice(file, 0, None, stride):
                case = json.loads(line)
                found[f"{name}-{case['id']}"] = with_small_layers(case)["graph"]
    return found


RECORDINGS = recordings()


@pytest.mark.slow
def test_recorded_graphs_are_walked_as_they_are_executed() -> None:
    compared = 0
    for name, graph in RECORDINGS.items():
        try:
            recorder = executed(graph)
        except OpError:  # it needs feeds, or a machine that is not there
            continue
        found = walked(graph)
        assert not found.guesses.sentences(), name
        assert rows_of(found.recorder) == rows_of(recorder), name
        compared += 1
    assert compared > 30


@pytest.mark.slow
@given(st.booleans(), st.floats(0.5, 200.0), st.sampled_from(["", "/cpu:1", "/gpu:0"]))
@settings(max_examples=examples(10), deadline=None)
def test_fed_branches_and_loops_are_walked_as_they_are_executed(p: bool, x: float, device: str) -> None:
    machine = {"cpu": 2, "gpu": 1}
    for graph, feed in (
        ({"nodes": cond(device), "devices": machine, "fetch": ["m"]}, {"p": p, "x": x}),
        ({"nodes": loop(device), "devices": machine, "fetch": ["out"]}, {"x": x}),
    ):
        assert rows_of(walked(graph, feed=feed).recorder) == rows_of(executed(graph, feed=feed))
        one, other = study(graph, feed=feed), study(graph, feed=feed, is_executed=True)
        assert time_document(one) == time_document(other)


@pytest.mark.parametrize("op", ["TensorArrayScatterV3", "TensorArraySplitV3"])
def test_what_a_large_tensor_wrote_into_a_tensor_array_is_there(op: str) -> None:
    places: dict[str, Any] = {"op": "Const", "name": "places", "dtype": "int32", "value": [0, 1, 2]}
    inputs = ["t", "places", "rows", "t:1"]
    if op == "TensorArraySplitV3":
        places = {"op": "Const", "name": "places", "dtype": "int64", "value": [1, 1, 1]}
        inputs = ["t", "rows", "places", "t:1"]
    nodes: Nodes = [
        {"op": "Const", "name": "n", "dtype": "int32", "value": 3},
        {"op": "Const", "name": "first", "dtype": "int32", "value": 1},
        places,
        {"op": "Fill", "name": "rows", "inputs": [[3, 1000], 0.5]},
        {"op": "TensorArrayV3", "name": "t", "inputs": ["n"], "attrs": {"dtype": "float32", "clear_after_read": False}},
        {"op": op, "name": "put", "inputs": inputs},
        {"op": "TensorArrayReadV3", "name": "one", "inputs": ["t", "first", "put"], "attrs": {"dtype": "float32"}},
        {"op": "TensorArrayConcatV3", "name": "all", "inputs": ["t", "put"], "attrs": {"dtype": "float32"}},
    ]
    if op == "TensorArrayScatterV3":  # rows of a split are matrices
        nodes[-1] = {
            "op": "TensorArrayGatherV3",
            "name": "all",
            "inputs": ["t", "places", "put"],
            "attrs": {"dtype": "float32"},
        }
    graph = {"nodes": nodes, "fetch": ["one", "all:0"]}
    assert rows_of(walked(graph).recorder) == rows_of(executed(graph))


# --- branches ------------------------------------------------------------------------------------------------------


def branches(widths: tuple[tuple[int, int], ...], nested: bool) -> Source:
    """Conditionals by placeholders `p0`, `p1` ...: tensors of these widths where they are false, and true.

    One follows the other, or each is on the true branch of the one before.
    """
    nodes: Nodes = [{"op": "Const", "name": "x0", "value": 1.0}]
    for number, (narrow, wide) in enumerate(widths):
        at = f"s{number - 1}:1" if nested and number else "x0"
        nodes += [
            {"op": "Placeholder", "name": f"p{number}", "dtype": "bool", "shape": []},
            {"op": "Switch", "name": f"s{number}", "inputs": [at, f"p{number}"]},
        ]
        for side, width in enumerate((narrow, wide)):
            nodes += [
                {"op": "Identity", "name": f"i{number}_{side}", "inputs": [f"s{number}:{side}"]},
                {
                    "op": "Const",
                    "name": f"d{number}_{side}",
                    "dtype": "int32",
                    "value": [width],
                    "inputs": [f"^i{number}_{side}"],
                },
                {"op": "BroadcastTo", "name": f"b{number}_{side}", "inputs": [f"i{number}_{side}", f"d{number}_{side}"]},
                {"op": "Max", "name": f"m{number}_{side}", "inputs": [f"b{number}_{side}", 0]},
            ]
    last = len(widths)
    for number in reversed(range(last)):
        inside = f"y{number + 1}" if nested and number + 1 < last else f"m{number}_1"
        extra = [inside, f"m{number}_1"] if inside != f"m{number}_1" else [inside]
        nodes.append({"op": "AddN", "name": f"t{number}", "inputs": extra})
        nodes.append({"op": "Merge", "name": f"y{number}", "inputs": [f"m{number}_0", f"t{number}"]})
    return {"nodes": nodes, "fetch": ["y0"] if nested else [f"y{number}" for number in range(last)]}


WIDTHS = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 3000)), min_size=1, max_size=3).map(tuple)


@pytest.mark.slow
@given(WIDTHS, st.booleans())
@settings(max_examples=examples(12), deadline=None)
def test_of_branches_the_dearest_are_taken(widths: tuple[tuple[int, int], ...], nested: bool) -> None:
    graph = branches(widths, nested)
    found = walked(graph)
    costs = []
    for values in itertools.product([False, True], repeat=len(widths)):
        fed = walked(graph, feed={f"p{number}": value for number, value in enumerate(values)})
        assert not fed.guesses.chosen
        costs.append(size(fed))
    assert size(found) == max(costs)
    chosen = {f"p{number}": bool(found.guesses.chosen.get(BranchChoice(f"p{number}", 2), 1)) for number in range(len(widths))}
    assert rows_of(walked(graph, feed=chosen).recorder) == rows_of(found.recorder)


def function(name: str, nodes: Nodes, inputs: Mapping[str, str], outputs: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": [{"name": given, "type": dtype} for given, dtype in inputs.items()],
        "outputs": [{"name": made, "type": dtype, "value": value} for made, (dtype, value) in outputs.items()],
        "nodes": nodes,
    }


def products(name: str, count: int) -> dict[str, Any]:
    """A function of a matrix: so many products of it with itself, one after the other."""
    nodes: Nodes = [
        {"op": "MatMul", "name": f"p{n}", "inputs": [f"p{n - 1}:product:0" if n else "a", "a"], "attrs": {"T": "float"}}
        for n in range(count)
    ]
    last = f"p{count - 1}:product:0" if count else "a"
    return function(name, nodes, {"a": "float"}, {"o": ("float", last)})


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize(
    ("op", "counts"), [("If", (3, 1)), ("StatelessIf", (1, 3)), ("Case", (1, 4, 2)), ("StatelessCase", (2, 5))]
)
def test_functions_that_are_branches_are_compared(op: str, counts: tuple[int, ...], lowered: bool) -> None:
    is_if = op.endswith("If")
    names = [f"f{count}" for count in counts]
    attrs: dict[str, Any] = {"Tin": ["float"], "Tout": ["float"], "_lower_using_switch_merge": lowered}
    if is_if:
        attrs |= {"Tcond": "bool", "then_branch": {"func": names[1]}, "else_branch": {"func": names[0]}}
    else:
        attrs["branches"] = [{"func": name} for name in names]
    graph = {
        "functions": [products(f"f{count}", count) for count in counts],
        "nodes": [
            {"op": "Placeholder", "name": "p", "dtype": "bool" if is_if else "int32", "shape": []},
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [64, 64]},
            {"op": op, "name": "chosen", "inputs": ["p", "x"], "attrs": attrs},
        ],
        "fetch": ["chosen"],
    }
    found = study(graph)
    assert sum(node.op == "MatMul" for node in found.nodes) == max(counts)
    assert any(sentence.startswith("p is unknown: branch ") for sentence in found.assumptions)
    best = counts.index(max(counts))
    fed = study(graph, feed={"p": bool(best) if is_if else best})
    assert fed.step == found.step
    assert not any("is not known" in sentence for sentence in fed.assumptions)


def test_a_branch_that_ends_in_an_error_is_not_taken() -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "p", "dtype": "bool", "shape": []},
        {"op": "Const", "name": "x", "value": [1.0, 2.0]},
        {"op": "Const", "name": "no", "value": False, "dtype": "bool"},
        {"op": "Switch", "name": "s", "inputs": ["x", "p"]},
        {"op": "Assert", "name": "check", "inputs": ["no", "s:1"], "attrs": {"T": ["float32"]}},
        {"op": "Identity", "name": "failing", "inputs": ["s:1", "^check"]},
        {"op": "Neg", "name": "good", "inputs": ["s:0"]},
        {"op": "Merge", "name": "m", "inputs": ["good", "failing"]},
    ]
    found = walked({"nodes": nodes, "fetch": ["m"]})
    assert found.guesses.sentences() == ("p is unknown: branch false is assumed, branch true ends with InvalidArgumentError",)


# --- loops ---------------------------------------------------------------------------------------------------------


def counted_loop(form: str, name: str = "turns") -> Source:
    """`n` products of a matrix, in a loop of that form."""
    body_nodes: Nodes = [
        {"op": "Const", "name": "one", "dtype": "int32", "value": 1},
        {"op": "AddV2", "name": "next", "inputs": ["i", "one:output:0"], "attrs": {"T": "int32"}},
        {"op": "MatMul", "name": "product", "inputs": ["x", "x"], "attrs": {"T": "float"}},
    ]
    variables = {"i": "int32", "n": "int32", "x": "float"}
    made = {"oi": ("int32", "next:z:0"), "on": ("int32", "n"), "ox": ("float", "product:product:0")}
    goes_on: Nodes = [{"op": "Less", "name": "less", "inputs": ["i", "n"], "attrs": {"T": "int32"}}]
    functions = [
        function("body", body_nodes, variables, made),
        function("cond", goes_on, variables, {"go": ("bool", "less:z:0")}),
        function("for_body", body_nodes[2:], {"i": "int32", "x": "float"}, {"ox": ("float", "product:product:0")}),
    ]
    types = ["int32", "int32", "float"]
    attrs: dict[str, Any] = {"T": types, "cond": {"func": "cond"}, "body": {"func": "body"}}
    node: dict[str, Any] = {"op": form, "name": name, "inputs": ["zero", "n", "x"], "attrs": attrs}
    output = f"{name}:2"
    if form == "lowered":
        node = node | {"op": "While", "attrs": attrs | {"_lower_using_switch_merge": True}}
    if form == "For":
        attrs = {"T": ["float"], "body": {"func": "for_body"}}
        node = {"op": "For", "name": name, "inputs": ["zero", "n", 1, "x"], "attrs": attrs}
        output = name
    nodes: Nodes = [
        {"op": "Const", "name": "zero", "dtype": "int32", "value": 0},
        {"op": "Placeholder", "name": "n", "dtype": "int32", "shape": []},
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [32, 32]},
        node,
    ]
    if form == "called":
        inner = node | {"op": "While", "inputs": ["z:output:0", "n", "x"]}
        zero = {"op": "Const", "name": "z", "dtype": "int32", "value": 0}
        outer = function("outer", [zero, inner], {"n": "int32", "x": "float"}, {"o": ("float", f"{name}:output:2")})
        functions.append(outer)
        call = {"f": {"func": "outer"}, "Tin": ["int32", "float"], "Tout": ["float"]}
        nodes[-1] = {"op": "PartitionedCall", "name": "call", "inputs": ["n", "x"], "attrs": call}
        output = "call"
    return {"functions": functions, "nodes": nodes, "fetch": [output]}


FORMS = ("While", "StatelessWhile", "lowered", "For", "called")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [0, 1, 4])
def test_iterations_that_are_given_run_as_those_that_are_fed(form: str, times: int) -> None:
    graph = counted_loop(form)
    warned: list[str] = []
    given_, fed = study(graph, iterations={"turns": times}, warned=warned), study(graph, feed={"n": times})
    assert not warned
    assert sum(node.op == "MatMul" for node in given_.nodes) == times
    assert given_.nodes == fed.nodes
    assert f"loop turns runs {times} times, as given" in given_.assumptions


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_that_nothing_counts_runs_once_and_is_warned_of(form: str) -> None:
    warned: list[str] = []
    found = study(counted_loop(form), warned=warned)
    assert sum(node.op == "MatMul" for node in found.nodes) == 1
    (line,) = warned
    assert line.startswith("loop turns is assumed to run once, as its trip count is unknown")
    assert any(sentence.startswith("loop turns is assumed to run once") for sentence in found.assumptions)


@pytest.mark.parametrize("form", FORMS)
def test_what_constants_fix_is_followed(form: str) -> None:
    graph = counted_loop(form)
    graph["nodes"][1] = {"op": "Const", "name": "n", "dtype": "int32", "value": 3}
    warned: list[str] = []
    found = study(graph, iterations=["turns=9"], warned=warned)
    assert sum(node.op == "MatMul" for node in found.nodes) == 3
    assert not warned
    assert any(sentence.startswith("the iteration count for turns is ignored") for sentence in found.assumptions)


@given(st.integers(0, 5), st.sampled_from(["", "/cpu:1", "/gpu:0"]))
@settings(max_examples=examples(8), deadline=None)
def test_a_frame_runs_as_often_as_is_said(times: int, device: str) -> None:
    graph = {"nodes": loop(device), "devices": {"cpu": 2, "gpu": 1}, "fetch": ["out"]}
    found = study(graph, shape={"x": ()}, iterations={"w": times})
    assert sum(node.node == "twice" for node in found.nodes) == times


def test_a_loop_ends_where_nobody_asks_for_memory() -> None:
    options = make_options({"shape": {"x": ()}, "iterations": {"w": 3}})
    found = run_dry(load({"nodes": loop(), "fetch": ["out"]}, None, options), options, {}, tells_memory=False)
    assert found.outcome.error is None
    assert not found.outcome.memory


def test_a_loop_of_a_function_that_was_put_in_is_called_as_the_warning_says() -> None:
    graph = counted_loop("called")
    graph["nodes"][-1]["attrs"]["_lower_as_multi_device_function"] = True
    for node in graph["functions"][-1]["nodes"]:
        if node["op"] == "While":
            node["attrs"]["_lower_using_switch_merge"] = True
    warned: list[str] = []
    study(graph, warned=warned)
    (name,) = re.findall("--iterations (.*)=N", warned[0])
    assert name.endswith("/turns")
    one, other = study(graph, iterations=[f"{name}=3"]), study(graph, iterations={"turns": 3})
    assert sum(node.op == "MatMul" for node in one.nodes) == 3
    assert one.nodes == other.nodes


def test_an_upper_bound_that_is_known_ends_a_loop() -> None:
    graph = counted_loop("While")
    graph["functions"][1] = function(
        "cond",
        [
            {"op": "Const", "name": "five", "dtype": "int32", "value": 5},
            {"op": "Less", "name": "below", "inputs": ["i", "five:output:0"], "attrs": {"T": "int32"}},
            {"op": "Less", "name": "less", "inputs": ["i", "n"], "attrs": {"T": "int32"}},
            {"op": "LogicalAnd", "name": "both", "inputs": ["below:z:0", "less:z:0"]},
        ],
        {"i": "int32", "n": "int32", "x": "float"},
        {"go": ("bool", "both:z:0")},
    )
    found = study(graph, iterations={"turns": 100})
    assert sum(node.op == "MatMul" for node in found.nodes) == 5


def test_a_loop_that_there_is_not_is_an_error_with_the_nearest() -> None:
    for form in FORMS:
        with pytest.raises(UsageError, match=r"no such loop: got 'turn' .*did you mean 'turns'"):
            study(counted_loop(form), iterations={"turn": 3})
    with pytest.raises(UsageError, match="there are no loops"):
        study({"nodes": cond(), "fetch": ["m"]}, iterations={"turn": 3}, shape={"x": ()})


# --- open sizes ----------------------------------------------------------------------------------------------------


def open_sizes() -> Source:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [None, 4]},
        {"op": "Placeholder", "name": "y", "dtype": "float32", "shape": [None, 4]},
        {"op": "Placeholder", "name": "z", "dtype": "float32", "shape": [3, None]},
        {"op": "Placeholder", "name": "n", "dtype": "int32", "shape": []},
        {"op": "Placeholder", "name": "k", "dtype": "int32", "shape": [2]},
        {"op": "Const", "name": "two", "value": 2, "dtype": "int32"},
        {"op": "Pack", "name": "d", "inputs": ["n", "two"]},
        {"op": "Fill", "name": "g", "inputs": ["d", 1.0]},
        {"op": "Fill", "name": "h", "inputs": ["k", 1.0]},
        {"op": "Relu", "name": "rg", "inputs": ["g"]},
        *({"op": "Relu", "name": f"r{name}", "inputs": [name]} for name in "xyz"),
    ]
    return {"nodes": nodes, "fetch": ["rg", "h", "rx", "ry", "rz"]}


def test_an_error_names_what_settles_most_first() -> None:
    with pytest.raises(SketchedValueError) as raised:
        walked(open_sizes())
    assert raised.value.message == "placeholders have unknown shapes: x [?,4], y [?,4], z [3,?]"
    assert raised.value.exit_code == 2
    assert raised.value.help == (
        "`--batch N` sets the first dimension of all: it resolves 4 of 6 unknown shapes",
        "`--shape z=3,N` sets the shape of z: it resolves 2 of 6 unknown shapes",
        "`--feed n=VALUE` resolves 2 of 3 shapes that depend on values",
        "`--feed k=VALUE` resolves 1 of 3 shapes that depend on values",
        "`--execute` runs the graph with numpy to get all sizes",
        "`--assume-unknown N` assumes N for each unknown dimension",
    )


def test_each_thing_that_it_names_is_needed_and_together_they_do() -> None:
    said: dict[str, Any] = {"batch": 5, "shape": {"z": [3, 2]}, "feed": {"n": 7, "k": [2, 2]}}
    assert not walked(open_sizes(), **said).guesses.sentences()
    for name in said:
        with pytest.raises(SketchedValueError):
            walked(open_sizes(), **{other: value for other, value in said.items() if other != name})


def test_a_value_inside_a_function_is_traced_to_its_feed() -> None:
    body: Nodes = [
        {"op": "Const", "name": "one", "value": 1.0},
        {"op": "Fill", "name": "filled", "inputs": ["d", "one:output:0"], "attrs": {"T": "float", "index_type": "int32"}},
    ]
    graph = {
        "functions": [function("f", body, {"d": "int32"}, {"o": ("float", "filled:output:0")})],
        "nodes": [
            {"op": "Placeholder", "name": "k", "dtype": "int32", "shape": [2]},
            {"op": "AddV2", "name": "more", "inputs": ["k", "k"]},
            {
                "op": "PartitionedCall",
                "name": "call",
                "inputs": ["more"],
                "attrs": {"f": {"func": "f"}, "Tin": ["int32"], "Tout": ["float"]},
            },
        ],
        "fetch": ["call"],
    }
    with pytest.raises(SketchedValueError) as raised:
        walked(graph)
    assert raised.value.help[0] == "`--feed k=VALUE` resolves it"
    assert not walked(graph, feed={"k": [2, 3]}).guesses.sentences()


def test_what_is_known_of_a_shape_stays_known() -> None:
    nodes: Nodes = [
        {"op": "Placeholder", "name": "n", "dtype": "int32", "shape": []},
        {"op": "Pack", "name": "d", "inputs": ["n", 64]},
        {"op": "Concat", "name": "e", "inputs": [0, "d", [3]]},
        {"op": "Fill", "name": "f", "inputs": ["e", 1.0]},
        {"op": "Fill", "name": "x", "inputs": [[8, 64], 1.0]},
        {"op": "Reshape", "name": "r", "inputs": ["x", "d"]},
    ]
    # one of a reshaped tensor's dimensions follows from the others
    assert not walked({"nodes": nodes, "fetch": ["r"]}).guesses.sentences()
    found = walked({"nodes": nodes, "fetch": ["f"]}, assume_unknown=5)
    shapes = {e.site.name: e.outputs for e in found.recorder.executions if e.site is not None}
    assert shapes["f"][0][0] == (5, 64, 3)


@given(st.integers(1, 50))
@settings(max_examples=examples(8), deadline=None)
def test_assumed_dimensions_are_as_those_that_are_said(count: int) -> None:
    found = walked(open_sizes(), assume_unknown=count)
    assert found.guesses.sentences() == (f"unknown dimensions of 5 tensors are assumed to be {count}",)
    said = walked(open_sizes(), batch=count, shape={"z": [3, count]}, feed={"n": count, "k": [count, count]})
    assert rows_of(found.recorder) == rows_of(said.recorder)


def test_a_rank_that_is_not_known_is_no_dimension_to_assume() -> None:
    graph = {"nodes": [{"op": "Placeholder", "name": "x", "dtype": "float32"}, {"op": "Relu", "name": "y", "inputs": ["x"]}]}
    with pytest.raises(SketchedValueError, match=r"unknown shapes: x of unknown rank"):
        walked(graph | {"fetch": ["y"]}, assume_unknown=3)


def embedding(*, of_known: bool) -> Source:
    """Rows of a resource variable; which ones is fed, or known."""
    nodes: Nodes = [
        {"op": "Placeholder", "name": "ids", "dtype": "int32", "shape": [6]},
        {"op": "Const", "name": "table", "value": 0.5, "shape": [1000, 4]},
        {"op": "VarHandleOp", "name": "v", "attrs": {"shape": [1000, 4], "dtype": "float32"}},
        {"op": "AssignVariableOp", "name": "assign", "inputs": ["v", "table"], "attrs": {"dtype": "float32"}},
        {"op": "Unique", "name": "u", "inputs": ["ids"]},
        {"op": "ResourceGather", "name": "rows", "inputs": ["v", [1, 2] if of_known else "u"], "attrs": {"dtype": "float32"}},
    ]
    return {"nodes": nodes, "run": [{"fetch": ["assign"]}, {"fetch": ["rows"]}]}


def last_shapes(found: DryRun) -> dict[str, Any]:
    return {e.site.name: [dims for dims, _ in e.outputs] for e in found.recorder.steps[-1] if e.site is not None}


def test_rows_of_a_variable_are_walked_whether_they_are_known_or_not() -> None:
    found = walked(embedding(of_known=True))
    assert (last_shapes(found)["rows"], found.guesses.sentences()) == ([(2, 4)], ())
    found = walked(embedding(of_known=False))
    assert last_shapes(found)["rows"] == [(6, 4)]
    assert found.guesses.sentences() == ("u is assumed to have 6 elements: set it with `--assume u=N`",)
    found = walked(embedding(of_known=False), assume={"u": 2})
    assert last_shapes(found)["rows"] == [(2, 4)]
    assert found.guesses.sentences() == ("u is assumed to have 2 elements, as given",)
    assert last_shapes(walked(embedding(of_known=False), assume_unknown=3))["rows"] == [(3, 4)]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "shapes"),
    [
        ("Where", ["m"], {}, [(6, 2)]),
        ("ListDiff", ["x", "x"], {}, [(5,), (5,)]),
        ("UniqueWithCounts", ["x"], {}, [(5,), (5,), (5,)]),
        ("UniqueV2", ["x", [0]], {}, [(5,), (5,)]),
        ("DynamicPartition", ["x", "x"], {"num_partitions": 3}, [(2,), (2,), (1,)]),
        ("DynamicStitch", ["x", "x", "x", "x"], {"N": 2}, [(10,)]),
        ("SegmentSum", ["x", "x"], {}, [(5,)]),
        ("SparseSegmentMean", ["f", "x", "x"], {}, [(5,)]),
        ("SparseSegmentMeanGradV2", ["f", "x", "x", 9], {}, [(5,), (5,)]),
        ("NonMaxSuppressionV3", ["boxes", "f", 4, 0.5, 0.5], {}, [(4,)]),
        ("NonMaxSuppressionV3", ["boxes", "f", 40, 0.5, 0.5], {}, [(5,)]),
        ("CTCGreedyDecoder", ["logits", "x"], {}, [(20, 2), (20,), (2,), (5, 1)]),
        ("DenseToDenseSetOperation", ["m", "m"], {"set_operation": "union"}, [(12, 2), (12,), (2,)]),
    ],
)
def test_sizes_that_depend_on_values_are_assumed(op: str, inputs: list[Any], attrs: dict[str, Any], shapes: Any) -> None:
    fed = (("x", "int32", [5]), ("m", "int32", [2, 3]), ("f", "float32", [5]), ("boxes", "float32", [5, 4]))
    nodes: Nodes = [
        {"op": "Placeholder", "name": name, "dtype": dtype, "shape": shape}
        for name, dtype, shape in (*fed, ("logits", "float32", [4, 5, 3]))
    ]
    found = walked({"nodes": [*nodes, {"op": op, "name": "n", "inputs": inputs, "attrs": attrs}], "fetch": ["n"]})
    assert last_shapes(found)["n"] == shapes
    sizes = list(dict.fromkeys(dims[0] for dims in shapes if dims not in ((2,), (5, 1)) or op == "DynamicPartition"))
    (said,) = found.guesses.sentences()
    assert said == f"n is assumed to have {' or '.join(_told(size) for size in sizes)}: set it with `--assume n=N`"


def _told(size: int) -> str:
    return "1 element" if size == 1 else f"{size} elements"


def test_any_kind_of_number_may_be_assumed() -> None:
    for form in FORMS:
        found = study(counted_loop(form), assume=["turns=4"])
        assert sum(node.op == "MatMul" for node in found.nodes) == 4
        assert any(said.endswith("turns runs 4 times, as given") or "/turns" in said for said in found.value_assumptions)
    graph = branches(((10, 20),), nested=False)
    found_ = walked(graph, assume={"p0": 0})
    assert found_.guesses.sentences() == ("p0 is unknown: branch false is taken, as given",)
    assert rows_of(found_.recorder) == rows_of(walked(graph, feed={"p0": False}).recorder)
    (ignored,) = walked(graph, assume={"p0": 1, "x0": 3}).guesses.sentences()[1:]
    assert ignored == "the assumption for x0 is ignored: nothing about it is unknown, or it does not run"
    for given_, message in (("p0", "expected NODE=N"), ("p0=x", "expected a number of 0 or more")):
        with pytest.raises(UsageError, match=message):
            walked(graph, assume=[given_])


def test_sizes_for_what_is_executed_are_refused() -> None:
    for values in ({"assume": {"w": 1}}, {"batch": 3}, {"shape": {"x": ()}}, {"iterations": {"w": 1}}, {"assume_unknown": 1}):
        with pytest.raises(UsageError, match="assumed sizes do not apply"):
            study({"nodes": loop(), "fetch": ["out"]}, is_executed=True, feed={"x": 3.0}, **values)


@pytest.mark.slow
def test_a_walk_that_has_ended_leaves_no_work_to_the_collector_of_garbage() -> None:
    kinds = GraphSession, Ledger, Buffer, ExecutionRecorder, Execution

    options = make_options({"gpu": 2, "soft_placement": True})
    loaded = load(Path(__file__).parents[2] / "graphs" / "alexnet.yaml", None, options)
    gc.freeze()  # so that the collector knows only what is made from now on, and nothing of other tests
    gc.disable()
    try:
        study_time(loaded, options, "alexnet")
        assert not Counter(type(item) for item in gc.get_objects() if isinstance(item, kinds))
    finally:
        gc.enable()
