"""Ensembles of decision trees of `ai.onnx.ml`, which all rows descend level by level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT
from placesim.formats.onnx.folding import int32
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.linear_models import both_columns, label_if, labelled, labels, one_minus, rows_of, transformed
from placesim.graph.constants import check_size

_Array = np.ndarray[Any, Any]
_MODES = {
    "BRANCH_LEQ": "LessEqual",
    "BRANCH_LT": "Less",
    "BRANCH_GTE": "GreaterEqual",
    "BRANCH_GT": "Greater",
    "BRANCH_EQ": "Equal",
    "BRANCH_NEQ": "NotEqual",
    "BRANCH_MEMBER": "Any",
}
"""TensorFlow's comparison for each mode of a node; modes are in the order of their numbers in TreeEnsemble.

For `Any`, the number must be a member of the node's set.
"""
_MOST_LEVELS = 1000
"""Maximum depth of a tree."""


class _Forest(NamedTuple):
    """The nodes of all trees. A leaf is its own successor.

    `weights` are `[nodes, targets]`, NaN for targets without a weight. `members` are the sets of nodes, `[nodes, largest set]`,
    filled up with NaN.
    """

    roots: _Array
    features: _Array
    splits: _Array
    comparisons: list[str | None]
    if_true: _Array
    if_false: _Array
    tracks_missing: _Array
    weights: _Array
    members: _Array

    @property
    def levels(self) -> int:
        """Return the number of nodes above the deepest leaf. Raises UnsupportedNodeError for a cycle."""
        at, depth = np.unique(self.roots), 0
        while (self.if_true[at] != at).any():
            at, depth = np.unique(np.concatenate([self.if_true[at], self.if_false[at]])), depth + 1
            if depth > _MOST_LEVELS:
                raise UnsupportedNodeError(f"tree too deep: got a cycle of nodes or more than {_MOST_LEVELS} levels")
        return depth


def _numbers(node: OnnxNode, name: str) -> _Array:
    """Return an attribute with real numbers: as `float`, or in the type of its tensor form, such as `double`."""
    tensor = node.attr(f"{name}_as_tensor")
    return np.array(node.attr(name, ()), np.float32) if tensor is None else np.asarray(tensor.array)


def _forest(node: OnnxNode, leaves: str, targets: int) -> _Forest:
    """Return the trees of attributes whose weights begin with `leaves`: `class` or `target`."""
    keys = list(zip(node.attr("nodes_treeids"), node.attr("nodes_nodeids"), strict=True))
    places = {key: place for place, key in enumerate(keys)}
    comparisons = [_comparison(mode) for mode in node.attr("nodes_modes")]
    own = np.arange(len(keys))
    if_true, if_false = (
        np.array([places[tree, number] if comparison else place for place, ((tree, _), number, comparison) in enumerate(rows)])
        for rows in (zip(keys, node.attr(f"nodes_{name}nodeids"), comparisons, strict=True) for name in ("true", "false"))
    )
    splits = _numbers(node, "nodes_values")
    check_size((len(keys), targets), DOUBLE)
    weights = np.full((len(keys), targets), np.nan, splits.dtype)
    given = zip(
        *(node.attr(f"{leaves}_{name}") for name in ("treeids", "nodeids", "ids")),
        _numbers(node, f"{leaves}_weights"),
        strict=True,
    )
    for tree, number, target, weight in given:
        _add_weight(weights, places[tree, number], target, weight)
    tracks = np.array(node.attr("nodes_missing_value_tracks_true") or np.zeros(len(keys)), bool)
    has_parent = np.zeros(len(keys), bool)
    for successors in (if_true, if_false):
        has_parent[successors[successors != own]] = True
    features, no_sets = np.array(node.attr("nodes_featureids")), np.zeros((len(keys), 0), splits.dtype)
    return _Forest(own[~has_parent], features, splits, comparisons, if_true, if_false, tracks, weights, no_sets)


def _add_weight(weights: _Array, place: int, target: int, weight: float) -> None:
    weights[place, target] = weight if np.isnan(weights[place, target]) else weights[place, target] + weight


def _tensor_forest(node: OnnxNode) -> _Forest:
    """Return the trees of TreeEnsemble, whose leaves follow the other nodes here."""
    splits = np.asarray(node.attr("nodes_splits").array)
    features, leaves = np.array(node.attr("nodes_featureids")), np.array(node.attr("leaf_targetids"))
    inner, count = len(features), len(features) + len(leaves)
    own = np.arange(inner, count)
    if_true, if_false = (
        np.concatenate([np.array(node.attr(f"nodes_{name}nodeids")) + inner * np.array(node.attr(f"nodes_{name}leafs")), own])
        for name in ("true", "false")
    )
    check_size((count, node.attr("n_targets", 1)), DOUBLE)
    weights = np.full((count, node.attr("n_targets", 1)), np.nan, splits.dtype)
    weights[own, leaves] = np.asarray(node.attr("leaf_weights").array)
    modes = list(_MODES.values())
    comparisons: list[str | None] = [modes[mode] for mode in node.attr("nodes_modes").array.tolist()]
    tracks = np.zeros(count, bool)
    tracks[:inner] = node.attr("nodes_missing_value_tracks_true") or False
    features, splits = (np.concatenate([each, np.zeros(len(leaves), each.dtype)]) for each in (features, splits))
    sets = node.attr("membership_values")
    members = _sets(np.zeros(0, splits.dtype) if sets is None else np.asarray(sets.array), comparisons, count)
    roots = np.array(node.attr("tree_roots"))
    comparisons += [None] * len(leaves)
    return _Forest(roots, features, splits, comparisons, if_true, if_false, tracks, weights, members)


def _sets(values: _Array, comparisons: list[str | None], count: int) -> _Array:
    """Return the sets of nodes; `values` has them one after another, each with a NaN at its end."""
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends)
    sizes = [len(part) for part in parts]
    check_size((count, max(sizes)), DOUBLE)
    made = np.full((count, max(sizes)), np.nan, values.dtype)
    for place, part in zip([at for at, each in enumerate(comparisons) if each == "Any"], parts, strict=False):
        made[place, : len(part)] = part
    return made


def _comparison(mode: str) -> str | None:
    """Return the comparison of a mode; None for a leaf. Raises UnsupportedNodeError."""
    if mode != "LEAF" and mode not in _MODES:
        raise UnsupportedNodeError(f"no such mode of a node: got '{mode}', expected LEAF, {', '.join(_MODES)}")
    return _MODES.get(mode)


def _reached(node: OnnxNode, forest: _Forest) -> Tensor:
    """Return the weights of the leaf that each row reaches in each tree, `[rows, trees, targets]`."""
    dtype = DOUBLE if forest.splits.dtype == np.float64 else FLOAT
    given = rows_of(node, dtype=dtype)
    rows = node.emit("GatherV2", node.emit("Shape", given), int32([0]), np.int32(0))
    shape = node.emit("ConcatV2", [rows, node.constant(int32([len(forest.roots)]))], np.int32(0))
    at = node.emit("BroadcastTo", int32(forest.roots), shape)
    features, splits, if_true, if_false = (
        node.constant(each) for each in (int32(forest.features), forest.splits, int32(forest.if_true), int32(forest.if_false))
    )
    zero, one = (node.constant(np.int32(axis)) for axis in (0, 1))
    compare = _comparer(node, forest)
    for _ in range(forest.levels):
        value = node.emit("GatherV2", given, node.emit("GatherV2", features, at, zero), one, batch_dims=1)
        split = node.emit("GatherV2", splits, at, zero)
        is_true = compare(value, split, at)
        following = (node.emit("GatherV2", each, at, zero) for each in (if_true, if_false))
        at = node.emit("SelectV2", is_true, *following)
    return node.emit("GatherV2", node.constant(forest.weights), at, zero)


def _comparer(node: OnnxNode, forest: _Forest) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function that says whether each row goes on to the node for true, given its value, split and node."""
    used, comparisons = sorted(filter(None, set(forest.comparisons))), np.array(forest.comparisons, object)
    applies = {comparison: node.constant(comparisons == comparison) for comparison in used[1:]}
    members = node.constant(forest.members) if "Any" in used else None
    tracks = node.constant(forest.tracks_missing) if forest.tracks_missing.any() else None
    zero = node.constant(np.int32(0))

    def holds(comparison: str, value: Tensor, split: Tensor, at: Tensor) -> Tensor:
        if comparison != "Any":
            return node.emit(comparison, value, split)
        own = node.emit("GatherV2", members, at, zero)
        return node.emit("Any", node.emit("Equal", node.emit("ExpandDims", value, np.int32(-1)), own), np.int32(-1))

    def compare(value: Tensor, split: Tensor, at: Tensor) -> Tensor:
        found = holds(used[0], value, split, at)
        for comparison, places in applies.items():
            found = node.emit("SelectV2", node.emit("GatherV2", places, at, zero), holds(comparison, value, split, at), found)
        if tracks is not None:
            is_tracked = node.emit("GatherV2", tracks, at, zero)
            found = node.emit("LogicalOr", found, node.emit("LogicalAnd", node.emit("IsNan", value), is_tracked))
        return found

    return compare


def _summed(node: OnnxNode, forest: _Forest, aggregate: str = "SUM") -> Tensor:
    """Return the weights of all trees together, `[rows, targets]`; 0 for a target without weights."""
    missing = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    weights = np.where(np.isnan(forest.weights), np.asarray(missing, forest.weights.dtype), forest.weights)
    reached = _reached(node, forest._replace(weights=weights))
    made = node.emit({"MIN": "Min", "MAX": "Max"}.get(aggregate, "Sum"), reached, np.int32(1))
    if missing:
        made = node.emit("SelectV2", node.emit("IsInf", made), node.like(0, made), made)
    if aggregate == "AVERAGE":
        made = node.emit("RealDiv", made, node.like(len(forest.roots), made))
    rows = (node.shape(node[0]) or (None, None))[0] if node.rank(node[0]) != 1 else 1
    return node.know_shape(made, (rows, weights.shape[1]))


def tree_ensemble_regressor(node: OnnxNode) -> Tensor:
    """GatherV2 of features, splits and successors for each level, a comparison, SelectV2, and Sum of the leaves' weights."""
    forest = _forest(node, "target", node.attr("n_targets", 1))
    made = _summed(node, forest, node.attr("aggregate_function", "SUM"))
    base = _numbers(node, "base_values")
    made = node.apply("Add", made, base.astype(forest.weights.dtype)) if base.size else made
    return node.cast(transformed(node, made), FLOAT)


def tree_ensemble(node: OnnxNode) -> Tensor:
    """As TreeEnsembleRegressor; Any of Equal for the members of a set."""
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[node.attr("aggregate_function", 1)]
    made = transformed(node, _summed(node, _tensor_forest(node), aggregate))
    return node.same_shape(node.cast(made, node.dtype(node[0])), made)


def tree_ensemble_classifier(node: OnnxNode) -> Outputs:
    """As TreeEnsembleRegressor with the classes as targets, then GatherV2 of the labels by ArgMax."""
    count = len(labels(node))
    forest = _forest(node, "class", count)
    scores, base = _summed(node, forest), _numbers(node, "base_values").astype(forest.weights.dtype)
    if count == 2:
        return _of_two(node, forest, scores, base)
    scores = node.apply("Add", scores, base) if base.size else scores
    chosen = labelled(node, node.apply("ArgMax", scores, axis=1, keepdims=0))
    return [chosen, transformed(node, node.cast(scores, FLOAT))]


def _of_two(node: OnnxNode, forest: _Forest, scores: Tensor, base: _Array) -> Outputs:
    """Return labels and scores of two classes. The leaves may have weights for only one of the classes."""
    has_weights = np.asarray((~np.isnan(forest.weights)).any(0))
    is_positive = bool((np.nan_to_num(forest.weights) >= 0).all())
    limit = 0.5 if is_positive and has_weights.sum() == 1 else 0.0
    column = 1 if has_weights[1] or base.size == 2 else 0
    scores = node.apply("Add", scores, base) if base.size == 2 else scores
    score = node.apply("Slice", scores, [column], [column + 1], [1])
    if base.size == 1:
        score = node.apply("Add", score, base)
    chosen = label_if(node, node.apply("Greater", score, node.like(limit, score)))
    if column:
        return [chosen, transformed(node, node.cast(scores, FLOAT))]
    score = node.same_shape(node.cast(score, FLOAT), score)
    if is_positive:
        return [chosen, both_columns(node, one_minus(node, score), score)]
    return [chosen, transformed(node, both_columns(node, node.apply("Neg", score), score))]


ROWS: Rows = {
    ("ai.onnx.ml::TreeEnsemble", 5): tree_ensemble,
    ("ai.onnx.ml::TreeEnsembleClassifier", 1, 3): tree_ensemble_classifier,
    ("ai.onnx.ml::TreeEnsembleRegressor", 1, 3): tree_ensemble_regressor,
}
