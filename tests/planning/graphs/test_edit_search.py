"""Plans by scope: few edits, which TensorFlow's placer follows, and a curve over their number."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.formats.sources.loading import load
from placesim.machine.options import make_options
from placesim.planning.graphs.edit_search import _EditChoice
from placesim.planning.graphs.plan_comparison import BY_NODE, BY_SCOPE, Aim, PlanEdit, PlanMeasure
from placesim.planning.portfolio import Effort
from placesim.studies.plan_study import study_plan
from tests.planning.graphs.test_plans import GRAPHS, plan

QUICK = Effort(evaluations=40, jobs=1)
BY_SCOPES = Aim(by=None)


def _branches(count: int) -> dict[str, Any]:
    """Return a graph whose branches are scopes of two products each."""
    scopes = [f"branch{number}" for number in range(count)]
    products = [
        node
        for scope in scopes
        for node in (
            {"op": "MatMul", "name": f"{scope}/first", "inputs": ["x", "x"]},
            {"op": "MatMul", "name": f"{scope}/second", "inputs": [f"{scope}/first", "x"]},
        )
    ]
    return {
        "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
        "nodes": [
            {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [4096, 4096]},
            *products,
            {"op": "AddN", "name": "sum", "inputs": [f"{scope}/second" for scope in scopes]},
        ],
        "fetch": ["sum"],
    }


@pytest.mark.slow
def test_a_plan_of_scopes_has_few_edits_and_a_curve_over_their_number() -> None:
    study = plan(_branches(4), effort=QUICK, aim=BY_SCOPES)
    assert study.by == BY_SCOPE
    assert [(edit.device, edit.nodes) for edit in study.edits] == [("GPU:1", 2)] * 2
    assert all(edit.path.endswith("/") for edit in study.edits)
    assert [point.changes for point in study.curve[:3]] == [0, 1, 2]
    assert [point.value for point in study.curve] == sorted((point.value for point in study.curve), reverse=True)
    assert study.curve[0].value == next(row.seconds for row in study.placements if row.label == "TensorFlow's default")
    # edits move all nodes of their scopes, and no others
    moved = {name for move in study.moves for name in move.nodes}
    assert moved == {f"{edit.path}{name}" for edit in study.edits for name in ("first", "second")}


def test_a_simple_placement_of_few_edits_can_be_the_plan() -> None:
    aim = BY_SCOPES._replace(sought=PlanMeasure.MEMORY)
    study = plan(_branches(2), effort=QUICK, aim=aim)
    assert study.plan is not None
    assert (study.plan.label, [(edit.path, edit.device) for edit in study.edits]) == ("all on CPU:0", [("*", "CPU:0")])
    assert plan(_branches(2), effort=QUICK, aim=aim._replace(changes=0)).edits == ()


@pytest.mark.slow
def test_a_limit_of_changes_is_kept_by_scope_and_by_node() -> None:
    by_scope = plan(_branches(4), effort=QUICK, aim=BY_SCOPES._replace(changes=1))
    by_node = plan(_branches(4), effort=QUICK, aim=Aim(by=BY_NODE, changes=1))
    assert [len(study.edits) for study in (by_scope, by_node)] == [1, 1]
    assert by_scope.value < by_node.value  # one scope is more than one node
    assert by_node.by == BY_NODE
    assert not by_node.edits[0].path.endswith("/")
    none = plan(_branches(4), effort=QUICK, aim=BY_SCOPES._replace(changes=0))
    assert none.edits == ()
    assert none.value == none.curve[0].value


def test_a_small_graph_is_also_searched_node_by_node_and_the_gain_is_known() -> None:
    graph = _branches(1)
    graph["nodes"][2]["inputs"] = ["x", "x"]
    graph["nodes"][3]["inputs"] = ["branch0/first", "branch0/second"]
    study = plan(graph, effort=QUICK, aim=BY_SCOPES._replace(changes=0))
    assert study.by_node is not None
    assert study.by_node.seconds < study.value
    assert not study.by_node.is_allowed
    assert study.by_node in study.placements


def test_an_op_and_the_constants_in_its_scope_are_one_edit_and_all_of_the_graph_is_one() -> None:
    study = plan(GRAPHS / "data-parallel.yaml", effort=QUICK, aim=BY_SCOPES, soft_placement=True)
    assert [edit[:2] for edit in study.edits] == [("*", "CPU:0")]


def test_edits_of_other_objectives_and_separated_groups_fit_the_graph() -> None:
    for sought in (PlanMeasure.THROUGHPUT, PlanMeasure.MEMORY):
        study = plan(_branches(2), effort=QUICK, aim=Aim(sought, by=BY_SCOPE))
        assert study.value == min(point.value for point in study.curve)
    study = plan(_branches(2), effort=QUICK, aim=Aim(by=BY_SCOPE, apart=("*/first",)))
    (edit,) = study.edits
    assert edit == PlanEdit(edit.path, "GPU:1", edit.nodes)


@pytest.mark.slow
def test_counted_work_gives_the_same_edits_again() -> None:
    options = make_options({"soft_placement": True, "gpu": 2, "gpu_model": "Tesla V100-SXM2-16GB"})
    loaded = load(GRAPHS / "model-parallel.yaml", None, options)
    first, again = (study_plan(loaded, options, "g", QUICK, ("*",), aim=BY_SCOPES) for _ in range(2))
    assert (first.edits, first.curve) == (again.edits, again.curve)


def test_of_many_plans_the_curve_has_those_of_few_edits_and_the_best() -> None:
    choice = object.__new__(_EditChoice)
    choice._aim = Aim()
    choice._best = {count: ((0, 0.0, 1 / (1 + count)), {str(number): 0 for number in range(count)}) for count in range(20)}
    assert [len(edits) for edits in choice.curve()] == [19, *reversed(range(11))]
