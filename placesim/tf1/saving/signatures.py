"""Messages for the signatures of SavedModels, which are their inputs and outputs."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.formats.tensorflow.messages import message_class
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.saving import saved_model_constants as names
from placesim.tf1.sparse.values import SparseTensor


def build_tensor_info(tensor: Any) -> Any:
    """The TensorInfo of a dense or sparse tensor."""
    found = message_class("TensorInfo")(dtype=tensor.dtype.base_dtype.as_datatype_enum)
    found.tensor_shape.CopyFrom(tensor.get_shape().as_proto())
    if isinstance(tensor, SparseTensor):
        found.coo_sparse.values_tensor_name = tensor.values.name
        found.coo_sparse.indices_tensor_name = tensor.indices.name
        found.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        found.name = tensor.name
    return found


def get_tensor_from_tensor_info(tensor_info: Any, graph: Any = None, import_scope: str | None = None) -> Any:
    """The tensor that a TensorInfo names.  Raises KeyError if the graph has none, ValueError for an empty info."""
    graph = graph or tf.get_default_graph()

    def find(name: str) -> Any:
        return graph.get_tensor_by_name(f"{import_scope}/{name}" if import_scope else name)

    kind = tensor_info.WhichOneof("encoding")
    if kind == "name":
        return find(tensor_info.name)
    if kind == "coo_sparse":
        of = tensor_info.coo_sparse
        return SparseTensor(find(of.indices_tensor_name), find(of.values_tensor_name), find(of.dense_shape_tensor_name))
    raise ValueError(
        f"Invalid TensorInfo.encoding: {kind}. Expected `coo_sparse`, `composite_tensor`, or `name` for a dense tensor."
    )


def build_signature_def(inputs: Any = None, outputs: Any = None, method_name: str | None = None, defaults: Any = None) -> Any:
    """A SignatureDef of TensorInfos by their keys."""
    found = message_class("SignatureDef")()
    for given, field in ((inputs, found.inputs), (outputs, found.outputs)):
        for key, info in (given or {}).items():
            field[key].CopyFrom(info)
    if method_name is not None:
        found.method_name = method_name
    return found


def predict_signature_def(inputs: Any, outputs: Any) -> Any:
    """The signature of a prediction.  Raises ValueError if either is empty."""
    for word, given in (("inputs", inputs), ("outputs", outputs)):
        if not given:
            raise ValueError(f"Prediction `{word}` cannot be None or empty.")
    infos = [{key: build_tensor_info(tensor) for key, tensor in given.items()} for given in (inputs, outputs)]
    return build_signature_def(infos[0], infos[1], names.PREDICT_METHOD_NAME)


def _examples(word: str, examples: object, no_tensor: str, no_string: str) -> Any:
    """The TensorInfo of examples. Raises ValueError, with the given texts, if they are no tensor of strings."""
    if examples is None:
        raise ValueError(f"{word} `examples` cannot be None.")
    if not isinstance(examples, tf.Tensor):
        raise ValueError(f"{no_tensor} Found `examples` of type {type(examples)}.")
    return _typed(examples, tf.string, no_string)


def _typed(tensor: TensorLike, wanted: Any, refusal: str) -> Any:
    """The TensorInfo of a tensor.  Raises ValueError with `refusal`, in which `{}` is the type, for another type."""
    info = build_tensor_info(tensor)
    if info.dtype != wanted.as_datatype_enum:
        raise ValueError(refusal.format(info.dtype))
    return info


def regression_signature_def(examples: object, predictions: TensorLike) -> Any:
    """The signature of a regression: strings to numbers.  Raises ValueError for other types."""
    if examples is not None and predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    wrong = "Regression {} tensors must be of type {}. Found tensors with type {{}}."
    no_tensor = "Expected regression `examples` to be of type Tensor."
    inputs = {names.REGRESS_INPUTS: _examples("Regression", examples, no_tensor, wrong.format("input", "string"))}
    outputs = {names.REGRESS_OUTPUTS: _typed(predictions, tf.float32, wrong.format("output", "float"))}
    return build_signature_def(inputs, outputs, names.REGRESS_METHOD_NAME)


def classification_signature_def(examples: object, classes: Any, scores: TensorLike) -> Any:
    """The signature of a classification: strings to classes, scores or both.  Raises ValueError for other types."""
    if examples is not None and classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    no_tensor = "Classification `examples` must be a string Tensor."
    no_string = "Classification input tensors must be of type string. Found tensors of type {}"
    inputs = {names.CLASSIFY_INPUTS: _examples("Classification", examples, no_tensor, no_string)}
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _typed(
            classes, tf.string, "Classification classes must be of type string Tensor. Found tensors of type {}.`"
        )
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _typed(scores, tf.float32, "Classification scores must be a float Tensor.")
    return build_signature_def(inputs, outputs, names.CLASSIFY_METHOD_NAME)


def is_valid_signature(signature_def: Any) -> bool:
    """Whether TensorFlow Serving could serve the signature."""
    if signature_def is None:
        return False
    method, inputs, outputs = signature_def.method_name, signature_def.inputs, signature_def.outputs
    if method == names.PREDICT_METHOD_NAME:
        return len(inputs) >= 1 and len(outputs) >= 1
    if method == names.REGRESS_METHOD_NAME:
        return set(inputs) == {names.REGRESS_INPUTS} and set(outputs) == {names.REGRESS_OUTPUTS} and _is_text(inputs)
    if method == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES, names.CLASSIFY_OUTPUT_SCORES}
        return set(inputs) == {names.CLASSIFY_INPUTS} and bool(outputs) and set(outputs) <= allowed and _is_text(inputs)
    return False


def _is_text(inputs: Any) -> bool:
    return all(info.dtype == tf.string.as_datatype_enum for info in inputs.values())
