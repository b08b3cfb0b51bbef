"""The specification's tables A (what a call makes) and B (what its gradient makes), row by row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import placesim.tf1 as tf1
from placesim.tf1.importing.namespaces import namespace

_DATA = Path(__file__).parent.parent / "data" / "tf1"


def _inputs(tf: Any) -> dict[str, Any]:
    """The tables' letters."""
    floats: dict[str, Any] = {
        "x": [2, 3],
        "w3": [2, 3],
        "u": [None, 3],
        "c": [4, 2, 3],
        "w": [3, 2],
        "m": [2, 4, 4, 3],
        "t": None,
    }
    floats |= {"k": [2, 2, 3, 5], "b3": [3], "mu": [None, 4, 4, 3]}
    made = {name: tf.placeholder(tf.float32, shape, name=name) for name, shape in floats.items()}
    made["i"] = tf.placeholder(tf.int32, [2], name="i")
    made["n"] = tf.placeholder(tf.int32, [], name="n")
    made["p"] = tf.placeholder(tf.bool, [2], name="p")
    made["b"] = tf.placeholder(tf.bool, [], name="b")
    made["s"] = tf.placeholder(tf.string, [], name="s")
    made["v"] = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    made["r"] = tf.get_variable("r", [2], initializer=tf.zeros_initializer(), use_resource=True)
    made["v2"] = tf.get_variable("v2", [2, 3], initializer=tf.zeros_initializer())
    made["r2"] = tf.get_variable("r2", [2, 3], initializer=tf.zeros_initializer(), use_resource=True)
    return made


def _text(operation: Any, prefix: str = "") -> str:
    name = operation.name.removeprefix(prefix)
    return name if not prefix and name == operation.type else f"{name}:{operation.type}"


def _differences(row: dict[str, Any]) -> tuple[Any, Any]:
    """What the table says and what is made."""
    tf = namespace("")
    with tf1.Graph().as_default() as graph:
        scope = {"tf": tf, **_inputs(tf)}
        before = len(graph.get_operations())
        made = eval(row["call"], scope)
        if row["table"] == "A":
            return _shortened(row["nodes"], [_text(operation) for operation in graph.get_operations()[before:]])
        middle = len(graph.get_operations())
        letters = [scope[name] for name in scope if name != "tf" and re.search(rf"\b{name}\b", row["call"])]
        tf.gradients(made, [tensor for tensor in letters if tensor.dtype.is_floating])
        found = graph.get_operations()[middle:]
        shown = [_text(operation, "gradients/") for operation in found if not _is_seed(operation.name)]
        assert len(found) == row["count"]
        return _shortened(row["nodes"], shown)


def _shortened(nodes: str, found: list[str]) -> tuple[str, str]:
    """Long rows end in ` ... (number)`."""
    told, dots, number = nodes.partition(" ... (")
    if not dots:
        return nodes, ", ".join(found)
    assert len(found) == int(number.rstrip(")").removesuffix(" nodes"))
    return told, ", ".join(found)[: len(told)]


def _is_seed(name: str) -> bool:
    return bool(re.fullmatch(r"gradients/(Shape|grad_ys_\d+(/Const)?)", name))


@pytest.mark.corpus
@pytest.mark.slow(2)  # alone in its file, which would be the last
def test_a_row(subtests: pytest.Subtests) -> None:
    rows = json.loads((_DATA / "tables.json").read_text())
    assert len(rows) == 417
    for row in rows:
        with subtests.test(f"{row['table']} {row['call']}"):
            expected, found = _differences(row)
            assert found == expected
