"""The JSON Schemas of a graph file and of a policy: they take all that the readers take, and refuse what those refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import placesim
from placesim.formats.graph_file.schema import graph_file_schema
from placesim.inspection.checking.policy import policy_from_tree, policy_schema
from placesim.inspection.checking.rules import RULES
from tests.documents import DOCUMENTS, blocks
from tests.processes import ROOT

jsonschema = pytest.importorskip("jsonschema", reason="of the extra `test`")
GRAPH_SCHEMA = jsonschema.Draft202012Validator(graph_file_schema())
POLICY_SCHEMA = jsonschema.Draft202012Validator(policy_schema())
NODES: list[Any] = [{"op": "Const", "name": "a", "value": 1.0}]


def shown() -> list[Any]:
    """What is shown in the manual as YAML and is a mapping."""
    found = []
    for path in DOCUMENTS:
        for block in blocks(path.read_text()):
            if block.language == "yaml":
                tree = yaml.load(block.text, Loader=yaml.CSafeLoader)
                found += [pytest.param(tree, id=path.stem)] if isinstance(tree, dict) else []
    return found


SHOWN = shown()
EXAMPLES = [case for case in SHOWN if "nodes" in case.values[0]]
POLICIES = [case for case in SHOWN if "rules" in case.values[0]]
GRAPHS = sorted((ROOT / "graphs").glob("*.yaml"))


def messages(validator: Any, tree: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(tree)]


@pytest.mark.slow
def test_the_schemas_are_schemas() -> None:
    for validator in (GRAPH_SCHEMA, POLICY_SCHEMA):
        validator.check_schema(validator.schema)
        assert json.loads(json.dumps(validator.schema)) == validator.schema
    assert len(EXAMPLES) > 10
    assert len(GRAPHS) > 10


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_every_graph_is_taken(path: Path) -> None:
    assert messages(GRAPH_SCHEMA, yaml.load(path.read_text(), Loader=yaml.CSafeLoader)) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_every_graph_is_taken_as_it_is_converted(path: Path) -> None:
    if path.stem != "alexnet":  # two hundred constants of each kind
        for nodes in ("exact", "raw"):
            assert messages(GRAPH_SCHEMA, yaml.load(placesim.convert(path, nodes=nodes).content, Loader=yaml.CSafeLoader)) == []


@pytest.mark.parametrize("tree", EXAMPLES)
def test_every_graph_of_the_manual_is_taken(tree: Any) -> None:
    try:
        placesim.convert(tree)
    except placesim.GraphFileError:
        return  # an example of what is wrong
    assert messages(GRAPH_SCHEMA, tree) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"node": NODES}, "$"),
        ({"nodes": {"op": "Const"}}, "$.nodes"),
        ({"nodes": [{"op": "Const", "value": 1, "vaule": 2}]}, "$.nodes[0]"),
        ({"nodes": [{"op": 3}]}, "$.nodes[0].op"),
        ({"nodes": [{"op": "Const", "value": 1, "dtype": "fp16"}]}, "$.nodes[0].dtype"),
        ({"nodes": [{"op": "Relu", "inputs": {"x": 1}}]}, "$.nodes[0].inputs"),
        ({"nodes": [{"variable": "v", "kind": "value", "shape": [2]}]}, "$.nodes[0].kind"),
        ({"nodes": [{"variable": "v", "initializer": "ones_like", "shape": [2]}]}, "$.nodes[0].initializer"),
        ({"nodes": [{"scope": "s", "nodes": [{"op": "Const", "value": 1, "devise": "/cpu:0"}]}]}, "$.nodes[0].nodes[0]"),
        ({"nodes": ["a"]}, "$.nodes[0]"),
        ({"devices": {"gpus": 2}}, "$.devices"),
        ({"devices": {"gpu": {"model": "V100"}}}, "$.devices"),
        ({"devices": [{"job": "1", "gpu": 2}]}, "$.devices"),
        ({"config": {"allow_soft_placement": "yes"}}, "$.config.allow_soft_placement"),
        ({"config": {"gpu_options": {"allow_grow": True}}}, "$.config.gpu_options"),
        ({"config": {"graph_options": {"place_pruned_graph": 1}}}, "$.config.graph_options.place_pruned_graph"),
        (
            {"config": {"graph_options": {"optimizer_options": {"do_constant_folding": 1}}}},
            "$.config.graph_options.optimizer_options.do_constant_folding",
        ),
        ({"links": [{"between": ["GPU:0", "CPU:0"]}]}, "$.links[0]"),
        ({"links": [{"bandwidth": "1GB/s"}]}, "$.links[0]"),
        ({"fetch": ["a"], "run": [{"fetch": ["a"]}]}, "$"),
        ({"run": [{"fetch": ["a"], "repeat": -1}]}, "$.run[0].repeat"),
        ({"fetch": 3}, "$.fetch"),
        ({"feed": {"a": {"random": [2]}}}, "$.feed.a"),
        ({"nodes": [{"op": "Relu", "inputs": [1.0], "attrs": {"T": None}}]}, "$.nodes[0].attrs"),
        ({"nodes": [{"op": "Relu", "inputs": [1.0], "attrs": {"T": {"typ": "float"}}}]}, "$.nodes[0].attrs"),
        ({"nodes": [{"op": "Placeholder", "attrs": {"dtype": {"type": "fp16"}}}]}, "$.nodes[0].attrs"),
        ({"nodes": [*NODES, {"cond": {"if": "a", "then": {"op": "NoOp"}}}]}, "$.nodes[1].cond"),
        ({"nodes": [*NODES, {"cond": {"if": "a", "then": {"op": 1}, "else": {"op": "NoOp"}}}]}, "$.nodes[1].cond.then"),
        (
            {"nodes": [{"while": {"loop_vars": {"a": 1}, "cond": [], "body": [], "shape_invariants": {"a": "any"}}}]},
            "$.nodes[0].while.shape_invariants.a",
        ),
        (
            {"nodes": [*NODES, {"gradients": {"of": "a", "aggregation_method": "sum"}}]},
            "$.nodes[1].gradients.aggregation_method",
        ),
        ({"nodes": [*NODES, {"train": {"minimize": "a", "optimizer": "GradientDescent"}}]}, "$.nodes[1].train"),
        ({"nodes": [*NODES, {"train": {"minimize": "a", "optimizer": {"Adam": {"learning_rte": 0.1}}}}]}, "$.nodes[1].train"),
        ({"nodes": [*NODES, {"train": {"minimize": "a", "optimizer": "Adman"}}]}, "$.nodes[1].train"),
        ({"nodes": [*NODES, {"train": {"minimize": "a", "apply": "b", "optimizer": "Adam"}}]}, "$.nodes[1].train"),
        ({"functions": [{"nodes": []}]}, "$.functions[0]"),
        ({"functions": [{"name": "f", "inputs": {"x": "flaot"}}]}, "$.functions[0].inputs"),
        ({"functions": [{"name": "f", "inputs": {"x": {"typ": "float"}}}]}, "$.functions[0].inputs"),
        ({"functions": [{"name": "f", "inputs": 3}]}, "$.functions[0].inputs"),
        ({"functions": [{"name": "f", "outputs": {"x": 3}}]}, "$.functions[0].outputs"),
        ({"functions": [{"name": "f", "outputs": {}, "nodes": [{"op": "NoOp", "nam": "n"}]}]}, "$.functions[0].nodes"),
        ({"functions": [{"name": "f", "raw": 1, "nodes": []}]}, "$.functions[0].raw"),
        ({"versions": {"producer": "new"}}, "$.versions.producer"),
        ({"raw": "yes"}, "$.raw"),
    ],
    ids=str,
)
def test_what_the_reader_refuses_is_refused(change: dict[str, Any], place: str) -> None:
    good: dict[str, Any] = {"nodes": NODES}
    assert messages(GRAPH_SCHEMA, good) == []
    bad = {key: value for key, value in (good | change).items() if "node" not in change or key != "nodes"}
    with pytest.raises(placesim.GraphFileError):
        placesim.place(bad)
    assert place in {error.json_path for error in GRAPH_SCHEMA.iter_errors(bad)}


@pytest.mark.parametrize(
    "more",
    [
        {
            "functions": [
                {"name": "f", "inputs": {"x": "float"}, "nodes": {"op": "Neg", "id": "y", "inputs": ["x"]}, "outputs": "y"}
            ]
        },
        {"functions": [{"name": "f", "inputs": {"x": {"type_attr": "T"}}, "outputs": ["x"], "control_outputs": []}]},
        {"nodes": [*NODES, {"gradients": {"of": "a", "with_respect_to": ["a"], "unconnected_gradients": "zero"}}]},
        {
            "nodes": [
                {"variable": "v", "shape": []},
                {"train": {"minimize": "v", "optimizer": "AdamOptimizer", "gate_gradients": "op"}},
            ]
        },
        {"nodes": [{"variable": "v", "shape": []}, {"train": {"minimize": "v", "optimizer": {"Adam": None}}}]},
        {
            "nodes": [
                {"op": "Placeholder", "attrs": {"dtype": "float", "shape": [None, 2], "_x": {"type": "float"}, "_y": [1, "b"]}}
            ]
        },
        {
            "nodes": [
                {
                    "op": "Const",
                    "attrs": {"value": {"tensor": {"dtype": "int32", "value": [1], "shape": [1]}}, "dtype": "int32"},
                }
            ]
        },
    ],
    ids=str,
)
def test_what_the_reader_takes_is_taken(more: dict[str, Any]) -> None:
    tree = {"nodes": NODES, **more}
    placesim.convert(tree)
    assert messages(GRAPH_SCHEMA, tree) == []


@pytest.mark.parametrize("tree", POLICIES)
def test_every_policy_of_the_manual_is_taken(tree: Any) -> None:
    assert messages(POLICY_SCHEMA, tree) == []


def test_every_rule_that_needs_nothing_is_taken_by_its_name() -> None:
    for name, rule in RULES.items():
        tree = {"rules": [name]}
        if any(parameter.required for parameter in rule.parameters):
            assert messages(POLICY_SCHEMA, tree) != []
            with pytest.raises(placesim.GraphFileError):
                policy_from_tree(tree)
        else:
            assert messages(POLICY_SCHEMA, tree) == []
            assert len(policy_from_tree(tree)) == 1


@pytest.mark.parametrize(
    ("rule", "is_good"),
    [
        ("no-soft-fallback", True),
        ({"no-soft-fallback": None}, True),
        ({"max-transfers": 10}, True),
        ({"max-peak-memory": {"bytes": "4GiB", "device": "GPU"}}, True),
        ({"max-step-time": "5ms"}, True),
        ({"max-step-time": 0.005}, True),
        ({"balance": {"of": "operations", "within": "20%"}}, True),
        ({"balance": {"of": "flops"}}, False),
        ({"max-transfers": "many"}, False),
        ({"max-transfers": {"limit": 3}}, False),
        ({"max-transfers": 3, "no-soft-fallback": None}, False),
        ("max-transfers", False),
        ("fast", False),
        ({"fast": 3}, False),
        (3, False),
    ],
    ids=str,
)
def test_a_rule_is_taken_as_its_reader_takes_it(rule: Any, is_good: bool) -> None:
    tree = {"rules": [rule]}
    assert (messages(POLICY_SCHEMA, tree) == []) == is_good
    if is_good:
        assert len(policy_from_tree(tree)) == 1
    else:
        with pytest.raises(placesim.GraphFileError):
            policy_from_tree(tree)


def test_a_policy_needs_rules() -> None:
    assert messages(POLICY_SCHEMA, {}) == ["$: 'rules' is a required property"]
    assert messages(POLICY_SCHEMA, {"rules": [], "rule": 1}) != []
