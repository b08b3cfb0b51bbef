"""Special functions of `tf.math` and `tf.math.special`; most are an op in a name scope."""

from __future__ import annotations

from math import sqrt
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")

_OPS = {
    **{
        f"bessel_{name}": f"Bessel{name.upper().replace('E', 'e')}"
        for name in ["i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"]
    },
    **{op.lower(): op for op in ("Dawsn", "Expint", "Spence", "Erfinv", "Ndtri")},
    "fresnel_cos": "FresnelCos",
    "fresnel_sin": "FresnelSin",
}


def _of_op(op: str, word: str) -> Any:
    def function(x: TensorLike, name: str | None = None) -> Any:
        with name_scope(name, word, [x]):
            return gen(op)(x)

    function.__name__ = function.__qualname__ = word
    function.__doc__ = f"`{op}` of each element."
    return function


def __getattr__(name: str) -> Any:
    if name not in _OPS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = _of_op(_OPS[name], name)
    return found


def erfcinv(x: TensorLike, name: str | None = None) -> Any:
    """The inverse of the complementary error function."""
    with name_scope(name, "erfcinv", [x]):
        x = convert_to_tensor(x, name="start")
        return -_of_op("Ndtri", "ndtri")(0.5 * x) * sqrt(0.5)


def lbeta(x: TensorLike, name: str | None = None) -> Any:
    """`ln |Beta|` of the last dimension."""
    with name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x, name="x")
        of_each = tf.reduce_sum(gen("Lgamma")(x), axis=[-1])
        return of_each - gen("Lgamma")(tf.reduce_sum(x, axis=[-1]))


def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Any:
    """`1 / x`, or 0 for x = 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return gen("DivNoNan")(constant(1, x.dtype.base_dtype, name="one"), x, name=scope)


def sobol_sample(
    dim: TensorLike, num_results: TensorLike, skip: TensorLike = 0, dtype: DTypeLike | None = None, name: str | None = None
) -> Any:
    """Points of the Sobol sequence."""
    with name_scope(name, "sobol", [dim, num_results, skip]):
        return gen("SobolSample")(dim, num_results, skip, dtype=tf.float32 if dtype is None else dtype)


def _approximate(is_max: bool, word: str) -> Any:
    def find(
        operand: object,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
        name: str | None = None,
    ) -> Any:
        return gen("ApproxTopK")(
            operand,
            k=k,
            reduction_dimension=reduction_dimension,
            recall_target=recall_target,
            is_max_k=is_max,
            reduction_input_size_override=reduction_input_size_override,
            aggregate_to_topk=aggregate_to_topk,
            name=name,
        )

    find.__name__ = find.__qualname__ = word
    return find


approx_max_k, approx_min_k = _approximate(True, "approx_max_k"), _approximate(False, "approx_min_k")
