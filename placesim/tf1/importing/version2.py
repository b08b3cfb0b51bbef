"""`tf.compat.v2`: functions of version 1 under version 2's parameters."""

from __future__ import annotations

from functools import cache
from inspect import Parameter, Signature
from typing import Any

from placesim.tf1.exports import table
from placesim.tf1.types import dtypes

_REDUCTION = "input_tensor axis=None keepdims=False name=None"
_ASSERTION = "x y message=None summarize=None name=None"
_ROWS = {
    "argmax argmin": "input axis=None output_type=int64 name=None",
    "assert_equal assert_none_equal assert_less assert_less_equal assert_greater assert_greater_equal": _ASSERTION,
    "assert_negative assert_positive assert_non_negative assert_non_positive": "x message=None summarize=None name=None",
    "boolean_mask": "tensor mask axis=None name=boolean_mask",
    "cond": "pred true_fn=None false_fn=None name=None",
    "confusion_matrix": "labels predictions num_classes=None weights=None dtype=int32 name=None",
    "constant": "value dtype=None shape=None name=Const",
    "convert_to_tensor": "value dtype=None dtype_hint=None name=None",
    "count_nonzero": "input axis=None keepdims=None dtype=int64 name=None",
    "device": "device_name:device_name_or_function",
    "equal not_equal": "x y name=None",
    "expand_dims": "input axis name=None",
    "gather": "params indices validate_indices=None axis=None batch_dims=0 name=None",
    "gather_nd": "params indices batch_dims=0 name=None",
    "gradients": (
        "ys xs grad_ys=None name=gradients gate_gradients=False aggregation_method=None stop_gradients=None "
        "unconnected_gradients=none"
    ),
    "hessians": "ys xs gate_gradients=False aggregation_method=None name=hessians",
    "math.bincount": "arr weights=None minlength=None maxlength=None dtype=int32 name=None",
    "math.l2_normalize": "x axis=None epsilon=1e-12 name=None",
    "nn.moments": "x axes shift=None keepdims=False name=None",
    "nn.sigmoid_cross_entropy_with_logits": "labels=None logits=None name=None",
    "nn.softmax nn.log_softmax": "logits axis=None name=None",
    "nn.softmax_cross_entropy_with_logits": "labels logits axis=-1 name=None",
    "nn.sparse_softmax_cross_entropy_with_logits": "labels logits name=None",
    "norm": "tensor ord=euclidean axis=None keepdims=None name=None",
    "pad": "tensor paddings mode=CONSTANT constant_values=0 name=None",
    "random.poisson": "shape lam dtype=float32 seed=None name=None",
    "reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum": _REDUCTION,
    "shape size": "input out_type=int32 name=None",
    "squeeze": "input axis=None name=None",
    "transpose": "a perm=None conjugate=False name=transpose",
    "while_loop": (
        "cond body loop_vars shape_invariants=None parallel_iterations=10 back_prop=True swap_memory=False "
        "maximum_iterations=None name=None +return_same_structure=True"
    ),
    "ones zeros": "shape dtype=float32 name=None",
    "zeros_like": "input:tensor dtype=None name=None",
}
"""Functions -> parameters: `NAME`, `NAME=DEFAULT`, `NAME:NAME_IN_VERSION_1`; `+NAME=VALUE` is passed to version 1 only."""
_PARAMETERS = {name: parameters for names, parameters in _ROWS.items() for name in names.split()}
_OTHERS = {
    "where": "where_v2",
    "Variable": "compat.v2.Variable",
    "ones_like": "compat.v2.ones_like",
    "nn.softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy_with_logits_v2",
    **{name: f"compat.v2.{name}" for name in map("keras.layers.{}".format, ("GRU", "GRUCell", "LSTM", "LSTMCell"))},
}
"""Name in version 2 -> different name of version 1's function that does the same."""
_VALUES = {"None": None, "True": True, "False": False, "0": 0, "10": 10, "-1": -1, "1e-12": 1e-12}
_TYPES = ("int32", "int64", "float32")


def name_in_version1(name: str) -> str:
    """Name of version 1's function that does what version 2's function does."""
    return _OTHERS.get(name, name)


def in_version2(name: str, found: Any) -> Any:
    """Function `tf.compat.v2.NAME`: `found`, the function of version 1, under version 2's parameters if they differ."""
    parameters = _by_implementation().get(table().get(name))
    return found if parameters is None else _with_parameters(name, found, parameters)


@cache
def _by_implementation() -> dict[Any, str]:
    """Implementation of a function, which is the same for all its names -> version 2's parameters."""
    return {table()[name]: parameters for name, parameters in _PARAMETERS.items() if name in table()}


@cache
def _with_parameters(name: str, function: Any, parameters: str) -> Any:
    """A function with other parameters, which calls this one."""
    renamed: dict[str, str] = {}
    fixed = {}
    taken = []
    for item in parameters.split():
        names, _, default = item.partition("=")
        value = _default(default) if default else Parameter.empty
        if names.startswith("+"):
            fixed[names[1:]] = value
            continue
        own, _, other = names.partition(":")
        renamed[own] = other or own
        taken.append(Parameter(own, Parameter.POSITIONAL_OR_KEYWORD, default=value))
    signature = Signature(taken)

    def call(*args: object, **kwargs: object) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        return function(**{renamed[own]: value for own, value in given.items()}, **fixed)

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = function.__doc__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _default(text: str) -> Any:
    return getattr(dtypes, text) if text in _TYPES else _VALUES.get(text, text)
