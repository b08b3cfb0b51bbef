"""Support vector machines of `ai.onnx.ml`."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from placesim.core.dtypes import FLOAT
from placesim.formats.onnx.bodies import IterationResult, repeat
from placesim.formats.onnx.lists import tensor_value
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.rows.linear_models import (
    both_columns,
    floats,
    label_if,
    labelled,
    labels,
    one_minus,
    rows_of,
    transformed,
    two_probabilities,
)
from placesim.formats.onnx.values import Value
from placesim.graph.constants import check_size

_MOST_ITERATIONS = 100
"""Maximum number of iterations in which ONNX Runtime joins the probabilities of pairs."""


def _kernel(node: OnnxNode, vectors: np.ndarray) -> Tensor:
    """Return the kernel function of each row and each vector, `[rows, vectors]`."""
    kind = node.attr("kernel_type", "LINEAR")
    gamma, coef0, degree = (*node.attr("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    given = rows_of(node)
    if kind == "RBF":
        apart = node.emit("SquaredDifference", node.apply("Unsqueeze", given, [1]), vectors)
        rows = (node.shape(given) or (None,))[0]
        apart = node.apply("ReduceSum", node.know_shape(apart, (rows, *vectors.shape)), [2], keepdims=0)
        return node.apply("Exp", node.apply("Mul", apart, node.like(-gamma, apart)))
    product = node.apply("MatMul", given, vectors.T)
    if kind == "LINEAR":
        return product
    product = node.apply("Add", node.apply("Mul", product, node.like(gamma, product)), node.like(coef0, product))
    if kind == "POLY":
        return node.apply("Pow", product, node.like(degree, product))
    if kind == "SIGMOID":
        return node.apply("Tanh", product)
    raise UnsupportedNodeError(f"no such kernel_type: got '{kind}', expected LINEAR, POLY, RBF or SIGMOID")


def _shifted(node: OnnxNode, kernel: Tensor, weights: np.ndarray, count: int) -> Tensor:
    """Return the weighted sums of a kernel, and `rho` added; `weights` are `[vectors, count]`."""
    return node.apply("Add", node.apply("MatMul", kernel, weights), floats(node, "rho", [0])[:count])


def svm_regressor(node: OnnxNode) -> Tensor:
    """The kernel of the support vectors, MatMul with the coefficients and AddV2 of `rho`; 1 or -1 with `one_class`."""
    weights, count = floats(node, "coefficients"), node.attr("n_supports", 0)
    if count:
        sums = _shifted(node, _kernel(node, floats(node, "support_vectors").reshape(count, -1)), weights[:, None], 1)
    else:
        sums = _shifted(node, rows_of(node), weights[:, None], 1)
    if not node.attr("one_class", 0):
        return sums
    return node.apply("Where", node.apply("Greater", sums, node.like(0, sums)), node.like(1, sums), node.like(-1, sums))


def svm_classifier(node: OnnxNode) -> Outputs:
    """The kernel of the support vectors, MatMul for each pair of classes, ArgMax of votes, and the `post_transform`."""
    classes = len(labels(node))
    sizes = node.attr("vectors_per_class", ())
    if not sizes:
        return _linear(node, classes)
    pairs = list(combinations(range(classes), 2))
    vectors = floats(node, "support_vectors").reshape(sum(sizes), -1)
    scores = _shifted(node, _kernel(node, vectors), _pair_weights(node, sizes, pairs), len(pairs))
    voted = labelled(node, node.apply("ArgMax", _votes(node, scores, classes, pairs), axis=1, keepdims=0))
    if node.attr("prob_a"):
        return [voted, transformed(node, _joined(node, _pair_probabilities(node, scores), classes, pairs))]
    if classes > 2:
        return [voted, transformed(node, scores)]
    if node.attr("post_transform", "NONE") == "NONE":
        return [voted, both_columns(node, node.apply("Neg", scores), scores)]
    return [voted, two_probabilities(node, scores)]


def _linear(node: OnnxNode, classes: int) -> Outputs:
    """Return labels and scores of a classifier without support vectors."""
    weights = floats(node, "coefficients").reshape(classes, -1)
    scores = _shifted(node, rows_of(node), weights.T, 1)
    if classes != 2:
        return [labelled(node, node.apply("ArgMax", scores, axis=1, keepdims=0)), transformed(node, scores)]
    largest, is_positive = node.apply("ReduceMax", scores, [1]), bool((weights >= 0).all())
    least = node.like(0.5 if is_positive else 0, scores)
    above = node.apply("GreaterOrEqual" if is_positive else "Greater", largest, least)
    is_second = node.apply("Cast", node.apply("ArgMax", scores, axis=1), to=9)
    return [label_if(node, node.apply("Or", above, is_second)), transformed(node, scores)]


def _pair_weights(node: OnnxNode, sizes: tuple[int, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """Return the weight of each support vector in each pair of classes, `[vectors, pairs]`.

    The coefficients are `[classes - 1, vectors]`. They have no row for the own class of a vector.
    """
    rows = floats(node, "coefficients").reshape(len(sizes) - 1, -1)
    ends = np.cumsum(sizes)
    check_size((int(ends[-1]), len(pairs)), FLOAT)
    made = np.zeros((int(ends[-1]), len(pairs)), np.float32)
    for column, (one, other) in enumerate(pairs):
        for own, row in ((one, other - 1), (other, one)):
            part = slice(ends[own] - sizes[own], ends[own])
            made[part, column] = rows[row, part]
    return made


def _votes(node: OnnxNode, scores: Tensor, classes: int, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the number of pairs that each class wins, `[rows, classes]`."""
    won, lost = (np.eye(classes, dtype=np.float32)[list(side)] for side in zip(*pairs, strict=True))
    wins = node.apply("Cast", node.apply("Greater", scores, node.like(0, scores)), to=1)
    return node.apply("Add", node.apply("MatMul", wins, won - lost), lost.sum(0))


def _pair_probabilities(node: OnnxNode, scores: Tensor) -> Tensor:
    """Return the probability that the first class of each pair wins, by Platt's sigmoid."""
    line = node.apply("Add", node.apply("Mul", scores, floats(node, "prob_a")), floats(node, "prob_b"))
    won = node.apply("Sigmoid", node.apply("Neg", line))
    return node.apply("Clip", won, node.like(1e-7, won), node.like(1 - 1e-7, won))


def _joined(node: OnnxNode, won: Tensor, classes: int, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the probability of each class, `[rows, classes]`, from the probabilities of pairs.

    The method is the second one of Wu, Lin and Weng (2004), "Probability estimates for multi-class classification by pairwise
    coupling". A row keeps its probabilities once they are exact enough.
    """
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    places = np.array([one * classes + other for one, other in zip(first + second, second + first, strict=True)])
    order = np.full(classes * classes, len(places))
    order[places] = np.arange(len(places))
    zeros = node.apply("Mul", node.apply("Slice", won, [0], [1], [1]), node.like(0, won))
    both = node.apply("Concat", won, one_minus(node, won), zeros, axis=1)
    shape = (-1, classes, classes)
    wins = node.apply("Reshape", node.apply("Gather", both, order, axis=1), shape)  # `wins[i, j]`: i wins against j
    losses = node.apply("Transpose", wins, perm=[0, 2, 1])
    diagonal = node.apply("ReduceSum", node.apply("Mul", losses, losses), [2])
    matrix = node.apply("Sub", node.apply("Mul", diagonal, np.eye(classes, dtype=np.float32)), node.apply("Mul", losses, wins))
    start = node.apply(
        "Expand", node.like(1 / classes, won), node.apply("Shape", node.apply("ReduceSum", wins, [2], keepdims=0))
    )

    def turn(body: OnnxNode, number: Value, flag: Value, carried: list[Value]) -> IterationResult:
        now, q = (tensor_of(value) for value in carried)
        return IterationResult(None, [_value(body, _sweep(body, now, q, classes)), carried[1]], [])

    made = repeat(node, node.constant(np.int64(_MOST_ITERATIONS)), None, [_value(node, start), _value(node, matrix)], turn)
    return node.know_shape(tensor_of(made.carried[0]), (None, classes))


def _value(node: OnnxNode, tensor: Tensor) -> Value:
    return tensor_value(node, tensor, node.shape(tensor))


def _sweep(node: OnnxNode, before: Tensor, matrix: Tensor, classes: int) -> Tensor:
    """Return the probabilities after one change of each; rows that are exact enough stay."""
    p = before
    qp = node.apply("Squeeze", node.apply("MatMul", matrix, node.apply("Unsqueeze", p, [2])), [2])
    pqp = node.apply("ReduceSum", node.apply("Mul", p, qp), [1])
    error = node.apply("ReduceMax", node.apply("Abs", node.apply("Sub", qp, pqp)), [1])
    is_exact = node.apply("Less", error, node.like(0.005 / classes, error))
    for index in range(classes):
        row = node.apply("Gather", matrix, index, axis=1)
        own, product = (node.apply("Slice", each, [index], [index + 1], [1]) for each in (row, qp))
        change = node.apply("Div", node.apply("Sub", pqp, product), own)
        total = node.apply("Add", change, node.like(1, change))
        twice = node.apply("Add", node.apply("Add", product, product), node.apply("Mul", change, own))
        pqp = node.apply("Div", node.apply("Add", pqp, node.apply("Mul", change, twice)), node.apply("Mul", total, total))
        qp = node.apply("Div", node.apply("Add", qp, node.apply("Mul", row, change)), total)
        moved = node.apply("Mul", change, np.eye(classes, dtype=np.float32)[index])
        p = node.apply("Div", node.apply("Add", p, moved), total)
    return node.apply("Where", is_exact, before, p)


ROWS: Rows = {
    ("ai.onnx.ml::SVMClassifier", 1): svm_classifier,
    ("ai.onnx.ml::SVMRegressor", 1): svm_regressor,
}
