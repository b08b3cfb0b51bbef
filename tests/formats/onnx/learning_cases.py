"""Cases of `row_cases.py` for the ops of `ai.onnx.ml`, beyond what scikit-learn's pipelines have (`sklearn_exports.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.formats.onnx.row_cases import RowCase

RNG = np.random.default_rng(7)
case: Callable[..., RowCase] = partial(RowCase, domain="ai.onnx.ml")
X = RNG.normal(size=(6, 3)).astype(np.float32)
NUMBERS = np.array([3, 1, 7, 2])
WORDS = np.array([["cat", "emu"], ["dog", "cow"]], object)
LINEAR = {"coefficients": RNG.normal(size=9).tolist(), "intercepts": [0.1, -0.2, 0.3]}


def tree(modes: list[str], **more: Any) -> dict[str, Any]:
    """Two trees: of three nodes with each of two modes above the leaves, and of one leaf."""
    return {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_featureids": [0, 0, 1, 0, 0, 0],
        "nodes_values": [0.2, 0.0, -0.1, 0.0, 0.0, 0.0],
        "nodes_modes": [modes[0], "LEAF", modes[1], "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 0],
        **more,
    }


def weights(name: str, targets: list[int], values: list[float]) -> dict[str, Any]:
    """The weights of the leaves of `tree`."""
    return {
        f"{name}_treeids": [0, 0, 0, 1],
        f"{name}_nodeids": [1, 3, 4, 0],
        f"{name}_ids": targets,
        f"{name}_weights": values,
    }


def two_classes(targets: list[int], values: list[float], transform: str = "NONE", labels: tuple[int, int] = (5, 9)) -> RowCase:
    own = {"classlabels_int64s": labels, "post_transform": transform}
    modes = ["BRANCH_LEQ", "BRANCH_GT"]
    return case("TreeEnsembleClassifier", [X], tree(modes, **weights("class", targets, values), **own), outputs=2)


def regression(aggregate: str, **more: Any) -> RowCase:
    modes = ["BRANCH_LT", "BRANCH_GTE"]
    own = weights("target", [0, 1, 0, 1], [0.5, -2.0, 3.0, 0.25])
    return case("TreeEnsembleRegressor", [X], tree(modes, **own, n_targets=2, aggregate_function=aggregate, **more))


LEARNING_CASES = {
    "scaler: integers": case("Scaler", [RNG.integers(0, 9, (3, 2))], {"offset": [1.0, 2.0], "scale": [0.5, 3.0]}),
    "normalizer: rows of zeros": case("Normalizer", [np.array([[0, 0], [3, -4]], np.float32)], {"norm": "L2"}),
    "vectors of features": case("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": [3, 2]}),
    "categories: numbers of words": case(
        "CategoryMapper", [WORDS], {"cats_strings": ["cat", "dog"], "cats_int64s": [4, 8], "default_int64": -3}
    ),
    "categories: words of numbers": case(
        "CategoryMapper", [NUMBERS], {"cats_strings": ["one", "three"], "cats_int64s": [1, 3], "default_string": "many"}
    ),
    "labels: words of numbers": case(
        "LabelEncoder", [NUMBERS], {"keys_int64s": [1, 3], "values_strings": ["one", "three"], "default_string": "many"}
    ),
    "labels: numbers of words": case("LabelEncoder", [WORDS], {"keys_strings": ["cat", "cow"], "values_floats": [0.5, 2.0]}),
    "imputer: a number": case("Imputer", [NUMBERS[None]], {"imputed_value_int64s": [9], "replaced_value_int64": 7}),
    "classifier: softmax": case(
        "LinearClassifier", [X], {**LINEAR, "classlabels_ints": [7, 8, 9], "post_transform": "SOFTMAX"}, outputs=2
    ),
    "classifier: softmax, zeros stay": case(
        "LinearClassifier", [X], {**LINEAR, "classlabels_ints": [7, 8, 9], "post_transform": "SOFTMAX_ZERO"}, outputs=2
    ),
    "classifier: logistic": case(
        "LinearClassifier", [X], {**LINEAR, "classlabels_strings": ["a", "b", "c"], "post_transform": "LOGISTIC"}, outputs=2
    ),
    "classifier: one score": case(
        "LinearClassifier", [X], {"coefficients": [1.0, -2.0, 0.5], "intercepts": [0.1], "classlabels_ints": [4, 6]}, outputs=2
    ),
    "classifier: one score, logistic": case(
        "LinearClassifier",
        [X],
        {"coefficients": [1.0, -2.0, 0.5], "intercepts": [0.1], "classlabels_ints": [4, 6], "post_transform": "LOGISTIC"},
        outputs=2,
    ),
    "regressor: two targets": case(
        "LinearRegressor", [X], {"coefficients": RNG.normal(size=6).tolist(), "intercepts": [0.5, 1.0], "targets": 2}
    ),
    "trees: one class, positive": two_classes([0] * 4, [0.1, 0.7, 0.2, 0.1]),
    "trees: one class, of either sign": two_classes([0] * 4, [0.1, -0.7, 0.2, -0.3]),
    "trees: one class, logistic": two_classes([0] * 4, [0.1, -0.7, 0.2, -0.3], "LOGISTIC"),
    "trees: the second class": two_classes([1] * 4, [0.1, 0.7, 0.2, 0.1]),
    "trees: two classes": two_classes([0, 1, 0, 1], [0.1, -0.7, 0.2, 0.1], "SOFTMAX", (0, 1)),
    "trees: the sum": regression("SUM", base_values=[1.0, -1.0]),
    "trees: the mean": regression("AVERAGE"),
    "trees: the least": regression("MIN"),
    "trees: the largest": regression("MAX"),
    "trees: missing numbers": case(
        "TreeEnsembleRegressor",
        [np.where(X > 0.5, np.nan, X)],
        tree(
            ["BRANCH_LEQ", "BRANCH_NEQ"],
            **weights("target", [0, 0, 0, 0], [0.5, -2.0, 3.0, 0.25]),
            n_targets=1,
            nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0],
        ),
    ),
    "vectors: linear": case(
        "SVMClassifier",
        [X],
        {
            "coefficients": RNG.normal(size=9).tolist(),
            "rho": [0.1],
            "classlabels_ints": [1, 2, 3],
            "kernel_type": "LINEAR",
            "kernel_params": [0.0, 0.0, 0.0],
        },
        outputs=2,
    ),
    "vectors: two classes": case(
        "SVMClassifier",
        [X],
        {
            "coefficients": RNG.normal(size=4).tolist(),
            "rho": [0.1],
            "classlabels_strings": ["no", "yes"],
            "kernel_type": "SIGMOID",
            "kernel_params": [0.3, 0.1, 3.0],
            "vectors_per_class": [2, 2],
            "support_vectors": RNG.normal(size=12).tolist(),
            "post_transform": "LOGISTIC",
        },
        outputs=2,
    ),
}
