"""Ops of `ai.onnx.ml` for numbers, categories, maps and linear models, as converters of scikit-learn's pipelines write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, INT32, INT64, STRING, DataType
from placesim.formats.onnx.element_types import ONNX_NUMBER
from placesim.formats.onnx.lists import tensor_value
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError, tensor_of
from placesim.formats.onnx.values import Value

# --- numbers --------------------------------------------------------------------------------------------------------


def rows_of(node: OnnxNode, index: int = 0, dtype: DataType = FLOAT) -> Tensor:
    """Return an input as rows of real numbers; a vector is a single row."""
    given = node[index] if node.dtype(node[index]) is dtype else node.apply("Cast", node[index], to=ONNX_NUMBER[dtype])
    return node.apply("Unsqueeze", given, [0]) if node.rank(given) == 1 else given


def floats(node: OnnxNode, name: str, default: Sequence[float] = ()) -> np.ndarray[Any, Any]:
    """Return an attribute with real numbers as an array."""
    return np.array(node.attr(name, default), np.float32)


def scaler(node: OnnxNode) -> Tensor:
    """Sub of the offset and Mul by the scale."""
    return node.apply("Mul", node.apply("Sub", rows_of(node), floats(node, "offset", [0])), floats(node, "scale", [1]))


def normalizer(node: OnnxNode) -> Tensor:
    """As LpNormalization of each row; for MAX, RealDiv by Max of the row unless that is 0."""
    given, norm = rows_of(node), node.attr("norm", "MAX")
    if norm in ("L1", "L2"):
        return node.apply("LpNormalization", given, axis=-1, p=int(norm[1]))
    largest = node.apply("ReduceMax", given, [-1])
    is_zero = node.apply("Equal", largest, node.like(0, largest))
    return node.apply("Div", given, node.apply("Where", is_zero, node.like(1, largest), largest))


def binarizer(node: OnnxNode) -> Tensor:
    """Cast of Greater than the threshold."""
    above = node.apply("Greater", node[0], node.like(node.attr("threshold", 0.0), node[0]))
    return node.same_shape(node.cast(above, node.dtype(node[0])), node[0])


def imputer(node: OnnxNode) -> Tensor:
    """SelectV2 of the given values where an element is the replaced number, or NaN."""
    given, dtype = node[0], node.dtype(node[0])
    if dtype.is_integer:
        replaced, values = node.attr("replaced_value_int64", 0), node.attr("imputed_value_int64s", ())
    else:
        replaced, values = node.attr("replaced_value_float", 0.0), node.attr("imputed_value_floats", ())
    is_missing = node.apply("IsNaN", given) if np.isnan(replaced) else node.apply("Equal", given, node.like(replaced, given))
    return node.apply("Where", is_missing, node.like(values, given), given)


def feature_vectorizer(node: OnnxNode) -> Tensor:
    """ConcatV2 of the columns of all inputs, each as `float`."""
    return node.apply("Concat", *(rows_of(node, index) for index in range(len(node.inputs))), axis=1)


def array_feature_extractor(node: OnnxNode) -> Tensor:
    """GatherV2 of elements along the last axis."""
    given = node.apply("Unsqueeze", node[0], [0]) if node.rank(node[0]) == 1 else node[0]
    return node.apply("Gather", given, node.apply("Reshape", node[1], [-1]), axis=-1)


# --- categories -----------------------------------------------------------------------------------------------------

_KINDS = {"strings": (STRING, "string", "_Unused"), "int64s": (INT64, "int64", -1), "floats": (FLOAT, "float", -0.0)}
"""Name endings of attributes with keys or values. Each has an element type, the name ending of the attribute `default_*`, and
the value if that attribute is missing.
"""


def texts(values: Sequence[str | bytes]) -> np.ndarray[Any, Any]:
    """Return texts as an array of bytes."""
    return np.array([*(text.encode() if isinstance(text, str) else text for text in values), None], object)[:-1]


def one_hot_encoder(node: OnnxNode) -> Tensor:
    """Cast of Equal to each category; an unknown category has only zeros."""
    names, numbers = node.attr("cats_strings"), node.attr("cats_int64s")
    given = node[0] if names else node.cast(node[0], INT64)
    categories = node.constant(texts(names) if names else np.array(numbers, np.int64))
    given = node.same_shape(given, node[0])
    return node.apply("Cast", node.apply("Equal", node.apply("Unsqueeze", given, [-1]), categories), to=1)


def label_encoder(node: OnnxNode) -> Tensor:
    """GatherV2 of the values by ArgMax of Equal to the keys; the default comes after the last value."""
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if keys is None or values is None:
        raise UnsupportedNodeError("no keys or no values: expected a list of each")
    return _mapped(node, keys, values, _default_of(node, values))


def class_encoder(node: OnnxNode) -> Tensor:
    """GatherV2 of numbers by ArgMax of Equal to the texts, or of texts by numbers."""
    names = texts(node.attr("classes_strings", node.attr("cats_strings", ())))
    numbers = np.array(node.attr("cats_int64s", range(len(names))), np.int64)
    keys, values = (names, numbers) if node.dtype(node[0]) is STRING else (numbers, names)
    return _mapped(node, keys, values, _default_of(node, values))


def _listed(node: OnnxNode, what: str) -> np.ndarray[Any, Any] | None:
    """Return the keys or the values of a map."""
    tensor = node.attr(f"{what}_tensor")
    if tensor is not None:
        return np.asarray(tensor.array).reshape(-1)
    for ending, (dtype, _, _) in _KINDS.items():
        found = node.attr(f"{what}_{ending}")
        if found:
            return texts(found) if dtype is STRING else np.array(found, dtype.numpy)
    return None


def _default_of(node: OnnxNode, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the value of unknown keys, `[1]`."""
    tensor = node.attr("default_tensor")
    if tensor is not None:
        return np.asarray(tensor.array).reshape(-1)[:1]
    kind = "string" if values.dtype == object else "int64" if values.dtype.kind == "i" else "float"
    given = node.attr(f"default_{kind}", next(default for _, name, default in _KINDS.values() if name == kind))
    return texts([given]) if kind == "string" else np.array([given], values.dtype)


def _mapped(node: OnnxNode, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any], default: np.ndarray[Any, Any]) -> Tensor:
    """Return the value of each element's key, or the default."""
    column = node.apply("Unsqueeze", node[0], [-1])
    same = node.apply("Equal", column, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        same = node.apply("Or", same, node.apply("And", node.apply("IsNaN", column), np.isnan(keys)))
    place = node.apply("ArgMax", node.apply("Cast", same, to=6), axis=-1, keepdims=0)
    is_known = node.apply("ReduceMax", same, [-1], keepdims=0)
    return node.apply("Gather", np.concatenate([values, default]), node.apply("Where", is_known, place, len(keys)))


# --- linear models --------------------------------------------------------------------------------------------------


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Values of `post_transform`, in the order of their numbers in TreeEnsemble."""


def transformed(node: OnnxNode, scores: Tensor) -> Tensor:
    """Return scores after the node's `post_transform`."""
    given = node.attr("post_transform", "NONE")
    name = TRANSFORMS[given] if isinstance(given, int) else given
    if name in ("LOGISTIC", "SOFTMAX"):
        return node.apply("Sigmoid", scores) if name == "LOGISTIC" else node.apply("Softmax", scores, axis=-1)
    if name == "PROBIT":
        return node.same_shape(node.emit("Ndtri", scores), scores)
    if name != "SOFTMAX_ZERO":
        return scores
    # scores of 0 stay 0
    is_zero = node.apply("Less", node.apply("Abs", scores), node.like(1e-7, scores))
    shifted = node.apply("Exp", node.apply("Sub", scores, node.apply("ReduceMax", scores, [-1])))
    kept = node.apply("Where", is_zero, node.like(0, scores), shifted)
    return node.apply("Div", kept, node.apply("ReduceSum", kept, [-1]))


def labels(node: OnnxNode) -> np.ndarray[Any, Any]:
    """Return the labels of the classes. Raises UnsupportedNodeError if there are none."""
    for name in ("classlabels_ints", "classlabels_int64s", "classlabels_strings"):
        found = node.attr(name)
        if found:
            return texts(found) if name.endswith("strings") else np.array(found, np.int64)
    raise UnsupportedNodeError("no labels: expected an attribute 'classlabels_ints', '..._int64s' or '..._strings'")


def labelled(node: OnnxNode, places: Tensor) -> Tensor:
    """Return the labels of classes by their numbers."""
    return node.apply("Gather", labels(node), places)


def label_if(node: OnnxNode, is_second: Tensor) -> Tensor:
    """Return the label of each row: the second of two classes where the bool tensor `[rows, 1]` is true, else the first."""
    return labelled(node, node.apply("Cast", node.apply("Squeeze", is_second, [1]), to=7))


def both_columns(node: OnnxNode, first: Tensor, second: Tensor) -> Tensor:
    """Return the scores of two classes as columns."""
    return node.apply("Concat", first, second, axis=1)


def one_minus(node: OnnxNode, tensor: Tensor) -> Tensor:
    """Return `1 - tensor`."""
    return node.apply("Sub", node.like(1, tensor), tensor)


def two_probabilities(node: OnnxNode, score: Tensor) -> Tensor:
    """Return the scores of two classes from the score of the second class."""
    second = node.apply("Sigmoid", score) if node.attr("post_transform", "NONE") == "LOGISTIC" else score
    return both_columns(node, one_minus(node, second), second)


def _products(node: OnnxNode, count: int) -> Tensor:
    """Return `[rows, count]` products of the input with the node's coefficients, and the intercepts added."""
    weights = floats(node, "coefficients").reshape(count, -1)
    return node.apply("Gemm", rows_of(node), weights, floats(node, "intercepts", [0] * count), transB=1)


def linear_regressor(node: OnnxNode) -> Tensor:
    """MatMul with the coefficients, AddV2 of the intercepts, and the `post_transform`."""
    return transformed(node, _products(node, node.attr("targets", 1)))


def linear_classifier(node: OnnxNode) -> Outputs:
    """MatMul with the coefficients, AddV2, GatherV2 of the labels by ArgMax, and the `post_transform`."""
    count = len(node.attr("intercepts", ())) or len(labels(node))
    scores = _products(node, count)
    if count > 1:
        return [labelled(node, node.apply("ArgMax", scores, axis=1, keepdims=0)), transformed(node, scores)]
    chosen = label_if(node, node.apply("Greater", scores, node.like(0, scores)))
    return [chosen, two_probabilities(node, scores)]


# --- maps -----------------------------------------------------------------------------------------------------------


def _entries(node: OnnxNode) -> tuple[Tensor, Tensor]:
    """Return the keys and values of the input. Raises UnsupportedNodeError unless it is a map."""
    items = node.value(0).items
    if items is None or len(items) != 2:
        raise UnsupportedNodeError("wrong input: expected a map that is an input of the model")
    keys, values = (node.know_shape(tensor_of(item), (None,)) for item in items)
    return keys, values


def _looked_up(node: OnnxNode, names: np.ndarray[Any, Any], keys: Tensor, values: Tensor, default: Any) -> Tensor:
    """Return the values of the keys `names` as one row `[1, names]`, and the default for a key that the map lacks."""
    found = node.apply("Cast", node.apply("Equal", keys, names[:, None]), to=ONNX_NUMBER[INT32])
    found = node.apply("Concat", found, np.ones((len(names), 1), np.int32), axis=1)  # the last column is the default's
    choices = node.apply("Concat", values, default, axis=0)
    return node.apply("Gather", choices, node.apply("ArgMax", node.apply("Unsqueeze", found, [0]), axis=2, keepdims=0))


def dict_vectorizer(node: OnnxNode) -> Tensor:
    """GatherV2 of the map's values by ArgMax of Equal to each word of the vocabulary; a missing word has 0."""
    names = node.attr("string_vocabulary")
    keys, values = _entries(node)
    vocabulary = texts(names) if names else np.array(node.attr("int64_vocabulary", ()), np.int64)
    default = texts([""]) if node.dtype(values) is STRING else np.zeros(1, node.dtype(values).numpy)
    return _looked_up(node, vocabulary, keys, values, default)


def cast_map(node: OnnxNode) -> Tensor:
    """Cast of the map's values in the order of their keys; if sparse, GatherV2 by each number below `max_map`."""
    keys, values = _entries(node)
    target = node.attr("cast_to", "TO_FLOAT").removeprefix("TO_")
    if target == "STRING" and node.dtype(values) is not STRING:
        values = node.same_shape(node.emit("AsString", values), values)
    else:
        values = node.apply("Cast", values, to=ONNX_NUMBER[{"FLOAT": FLOAT, "INT64": INT64, "STRING": STRING}[target]])
    if node.attr("map_form", "DENSE") == "SPARSE":
        default = texts(["0.f"]) if target == "STRING" else np.zeros(1, node.dtype(values).numpy)
        return _looked_up(node, np.arange(node.attr("max_map", 1)), keys, values, default)
    _, order = node.apply_all("TopK", 2, keys, node.apply("Shape", keys), largest=0)
    return node.apply("Unsqueeze", node.apply("Gather", values, order), [0])


def zip_map(node: OnnxNode) -> Value:
    """Identity: the scores stay a matrix, in place of a sequence of maps; its columns are the labels in their order."""
    return tensor_value(node, node.emit("Identity", node[0]), node.shape(node[0]))


ROWS: Rows = {
    ("ai.onnx.ml::ArrayFeatureExtractor", 1): array_feature_extractor,
    ("ai.onnx.ml::Binarizer", 1): binarizer,
    ("ai.onnx.ml::CastMap", 1): cast_map,
    ("ai.onnx.ml::CategoryMapper", 1): class_encoder,
    ("ai.onnx.ml::DictVectorizer", 1): dict_vectorizer,
    ("ai.onnx.ml::FeatureVectorizer", 1): feature_vectorizer,
    ("ai.onnx.ml::Imputer", 1): imputer,
    ("ai.onnx.ml::LabelEncoder", 1): class_encoder,
    ("ai.onnx.ml::LabelEncoder", 2, 4): label_encoder,
    ("ai.onnx.ml::LinearClassifier", 1): linear_classifier,
    ("ai.onnx.ml::LinearRegressor", 1): linear_regressor,
    ("ai.onnx.ml::Normalizer", 1): normalizer,
    ("ai.onnx.ml::OneHotEncoder", 1): one_hot_encoder,
    ("ai.onnx.ml::Scaler", 1): scaler,
    ("ai.onnx.ml::ZipMap", 1): zip_map,
}
