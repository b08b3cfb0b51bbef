"""Feeds of a dry run: shapes that are given, assumed or missing, and what is said of those that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.core.errors import UsageError
from placesim.core.files.access import FileAccess
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.graph.graph import Graph
from placesim.graph.session_steps import Feed, Fetch, GeneratedFeed, GraphStep
from placesim.ops.kernels.abstract_tensor import UNTOLD, Sketch, SketchedValueError
from placesim.runtime.dry_runs.abstract_values import MAX_KNOWN_ELEMENTS
from placesim.runtime.dry_runs.assumptions import Assumptions, OpenTensor
from placesim.runtime.dry_runs.dry_run_feeds import (
    FeedShapes,
    check_batch,
    count_dry_run_nodes,
    declared_shapes,
    has_open_batch,
    loop_frames,
    sketch_feeds,
    suggest_settlements,
)
from placesim.runtime.partitioning.step_requests import resolve_fetch


def placeholder(name: str, *shape: int, known: bool = True) -> dict[str, Any]:
    return {"op": "Placeholder", "name": name, "dtype": "float", **({"shape": list(shape)} if known else {})}


def neg(name: str, *inputs: str) -> dict[str, Any]:
    return {"op": "Neg" if len(inputs) == 1 else "AddN", "name": name, "inputs": list(inputs)}


def graph_of(*nodes: dict[str, Any], **file: Any) -> Graph:
    return graph_file_from_mapping({"nodes": nodes, **file}).graph


TWO = graph_of(placeholder("x", -1, 2), placeholder("y", 3), placeholder("z", known=False), neg("a", "x"), neg("b", "z"))


def fed(graph: Graph, fetch: str, wanted: FeedShapes, *feeds: Feed) -> dict[str, Any]:
    """The feeds by the names of what is fed: a sketch's shape in a list, or the value."""
    step = GraphStep((Fetch(fetch),), feeds)
    fetched = [resolve_fetch(graph, step.fetches[0])]
    found = sketch_feeds(graph, step, fetched, wanted, Path(), FileAccess.of([Path()]))
    return {
        graph.tensor_name(ref): [value.shape, value.roots] if isinstance(value, Sketch) else value
        for ref, value in found.items()
    }


def told(name: str, *shape: int) -> list[Any]:
    return [shape, frozenset([name])]


def test_shapes_that_are_given() -> None:
    assert fed(TWO, "a", FeedShapes(batch=7)) == {"x": told("x", 7, 2)}
    assert fed(TWO, "a", FeedShapes({"x": (5, 2)}, batch=7)) == {"x": told("x", 5, 2)}
    assert fed(TWO, "b", FeedShapes({"z": (4,)}, batch=7)) == {"z": told("z", 4)}
    assert fed(TWO, "y", FeedShapes(batch=7)) == {"y": told("y", 3)}
    assert fed(TWO, "a", FeedShapes(batch=600)) == {"x": [(600, 2), None]}
    assert fed(TWO, "a", FeedShapes(batch=MAX_KNOWN_ELEMENTS // 2)) == {"x": told("x", 512, 2)}


def test_shapes_that_are_assumed() -> None:
    wanted = FeedShapes(guesses=Assumptions(dimension=9))
    assert fed(TWO, "a", wanted) == {"x": told("x", 9, 2)}
    assert wanted.guesses.opened == {(id(TWO), "x", 0): OpenTensor("x", (-1, 2))}


def test_feeds_that_are_small_stay_as_they_are() -> None:
    found = fed(TWO, "a", FeedShapes(), Feed("x", [[1.0, 2.0]]))
    assert found["x"].tolist() == [[1.0, 2.0]]
    assert fed(TWO, "a", FeedShapes(batch=4), Feed("x", [[1.0, 2.0]])) == {"x": told("x", 4, 2)}
    assert fed(TWO, "a", FeedShapes(), Feed("x", np.zeros((600, 2)))) == {"x": [(600, 2), None]}
    assert fed(TWO, "a", FeedShapes(), Feed("x", GeneratedFeed("zeros", (3, 2)))) == {"x": told("x", 3, 2)}


@pytest.mark.parametrize(
    ("shapes", "message", "help_line"),
    [
        ({"xx": (1,)}, "no such placeholder: got 'xx' in --shape, expected a placeholder of the graph", "did you mean x?"),
        ({"x": (1,)}, "wrong shape of x: got [1], expected [?,2]", ""),
        ({"x": (1, 3)}, "wrong shape of x: got [1,3], expected [?,2]", ""),
    ],
)
def test_shapes_that_fit_no_placeholder(shapes: dict[str, tuple[int, ...]], message: str, help_line: str) -> None:
    with pytest.raises(UsageError) as caught:
        fed(TWO, "a", FeedShapes(shapes))
    assert caught.value.message == message
    assert "".join(caught.value.help) == help_line


def missing(graph: Graph, fetch: str) -> SketchedValueError:
    with pytest.raises(SketchedValueError) as caught:
        fed(graph, fetch, FeedShapes())
    return caught.value


def test_what_settles_most_is_named_first() -> None:
    nodes = [placeholder("x", -1, 2), placeholder("w", -1), placeholder("y", -1, -1), placeholder("z", known=False)]
    all_of_it = {"op": "NoOp", "name": "all", "control_inputs": ["b", "c", "d", "e"]}
    graph = graph_of(*nodes, neg("a", "x"), neg("b", "a"), neg("c", "y"), neg("d", "w"), neg("e", "z"), all_of_it)
    error = missing(graph, "all")
    assert error.message == "placeholders have unknown shapes: x [?,2], w [?], y [?,?], z of unknown rank"
    assert error.help == (
        "`--batch N` sets the first dimension of all: it resolves 5 of 9 unknown shapes",
        "`--shape y=N,N` sets the shape of y: it resolves 2 of 9 unknown shapes",
        "`--shape z=1,2,3` sets the shape of z: it resolves 2 of 9 unknown shapes",
    )
    assert missing(graph, "b").help == ("`--batch N` sets the first dimension of all",)
    assert missing(graph, "c").help == ("`--shape y=N,N` sets the shape of y",)


def test_no_more_than_five_are_named() -> None:
    names = [f"p{i}" for i in range(7)]
    graph = graph_of(*(placeholder(name, -1, -1) for name in names), neg("sum", *names))
    error = missing(graph, "sum")
    assert error.message == f"placeholders have unknown shapes: {', '.join(f'p{i} [?,?]' for i in range(5))} and 2 more"
    assert error.help[0].startswith("`--shape p0=N,N` sets the shape of p0: it resolves ")
    assert len(error.help) == 5


def failed(roots: frozenset[str] | None, node: str | None) -> SketchedValueError:
    error = SketchedValueError("unknown", node=node)
    error.roots = roots
    return error


EXECUTE = "`--execute` runs the graph with numpy to get all sizes"


@pytest.mark.parametrize(
    ("roots", "node", "opened", "said"),
    [
        (None, "n", [], []),
        (frozenset("a"), "n", [], ["`--feed a=VALUE` resolves it"]),
        (frozenset("ba"), "n", [], ["`--feed a=VALUE` and `--feed b=VALUE` resolve it"]),
        (frozenset("a"), "n", [frozenset("a")], ["`--feed a=VALUE` resolves it"]),
        (
            None,
            None,
            [frozenset("a"), frozenset("ab"), frozenset("a"), frozenset({UNTOLD, "c"})],
            [
                "`--feed a=VALUE` and `--feed b=VALUE` resolve 3 of 4 shapes that depend on values",
            ],
        ),
    ],
)
def test_remedies_for_a_value_that_is_not_known(
    roots: frozenset[str] | None, node: str | None, opened: list[frozenset[str]], said: list[str]
) -> None:
    assert suggest_settlements(failed(roots, node), opened) == (*said, EXECUTE)


# --- facts of a graph -----------------------------------------------------------------------------------------------


def test_batches_that_are_open() -> None:
    assert declared_shapes(TWO) == [("x", "[?,2]"), ("y", "[3]"), ("z", "?")]
    assert has_open_batch(TWO)
    check_batch(TWO)
    closed = graph_of(placeholder("y", 3), placeholder("s"), placeholder("t", 2, -1), placeholder("z", known=False))
    assert not has_open_batch(closed)
    with pytest.raises(UsageError, match="no batch dimension: got --batch") as caught:
        check_batch(closed)
    assert caught.value.help == (
        "y is declared as [3]", "s is declared as []", "t is declared as [2,?]", "z is declared as ?",
        "in a graph file, `shape: [null, ...]` leaves the batch open",
    )  # fmt: skip


def test_nodes_of_a_dry_run() -> None:
    steps = [GraphStep((Fetch("a"),), repeat=3), GraphStep((Fetch("b"),))]
    assert count_dry_run_nodes(TWO, None) == 5
    assert count_dry_run_nodes(TWO, steps) == 20
    loop: list[dict[str, Any]] = [
        {"op": "Const", "name": "c", "value": 1.0},
        {"op": "Enter", "name": "e", "inputs": ["c"], "attrs": {"T": "float", "frame_name": "f"}},
        {"op": "NextIteration", "name": "n", "inputs": ["e"], "attrs": {"T": "float"}},
    ]
    graph = graph_of(*loop, raw=True)
    assert count_dry_run_nodes(graph, None) is None
    assert loop_frames(graph) == ["f"]
    assert loop_frames(TWO) == []


def test_placeholders_that_nothing_needs_are_not_asked_for() -> None:
    ((name, value),) = fed(TWO, "b", FeedShapes(), Feed("z", [1.0])).items()
    assert (name, value.tolist()) == ("z", [1.0])
