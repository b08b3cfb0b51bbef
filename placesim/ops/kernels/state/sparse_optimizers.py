"""Sparse training ops: an optimizer's rule, applied to the rows of its variables at `indices`.

If an index occurs twice, its row is updated twice, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import first_outside, split_turns
from placesim.ops.kernels.cost_model import ONE_PASS, CostModel, SliceAccess
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, per_element
from placesim.ops.kernels.memory_rules import touches_rows
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims, merge, merge_dim, replace_dim, with_rank
from placesim.ops.kernels.state import optimizers, update_rules
from placesim.ops.kernels.state.optimizers import (
    Check,
    Rule,
    build_flops,
    build_infer_apply,
    overwritable,
    same_shape,
    same_shapes,
    scalar,
    scalars,
    set_values,
    signed_scalar,
    signed_scalars,
    training_values,
)
from placesim.ops.kernels.state.variables import ref_output

CHECKS_INDICES_FIRST = ("Adadelta", "Adagrad", "AdagradV2", "RMSProp", "CenteredRMSProp")
"""Optimizers that change nothing if an index is out of range; the others update the rows before it."""

# --- checks ---------------------------------------------------------------------------------------------------------


def _var_has_rows(inputs: Mapping[str, Tensor]) -> None:
    if not np.ndim(inputs["var"]):
        raise InvalidArgumentError("var must be at least 1 dimensional")


def _indices_are_vector(inputs: Mapping[str, Tensor]) -> None:
    if np.ndim(inputs["indices"]) != 1:
        raise InvalidArgumentError("indices must be one-dimensional")


def _gradient_fits(inputs: Mapping[str, Tensor]) -> None:
    var, grad = np.shape(inputs["var"]), np.shape(inputs["grad"])
    for axis in range(1, len(var)):
        if grad[axis : axis + 1] != (var[axis],):
            raise InvalidArgumentError(f"var and grad must match in dimension {axis}")
    if grad[:1] != np.shape(inputs["indices"]):
        raise InvalidArgumentError("grad must be the same size as indices in the first dimension.")


def _gradient_has_rank(inputs: Mapping[str, Tensor]) -> None:
    if np.ndim(inputs["grad"]) != np.ndim(inputs["var"]):
        raise InvalidArgumentError("grad must have the same number of dimensions as var")


def _rate_is_positive(inputs: Mapping[str, Any]) -> None:
    # with `multiply_linear_by_lr` nothing is divided by the rate
    rate = inputs["lr"]
    if np.ndim(rate) or not (rate > 0 or (rate == 0 and inputs["multiply_linear_by_lr"])):
        dims = format_dims(np.shape(rate))
        raise InvalidArgumentError(f"lr is not a positive scalar (or zero if multiply_linear_by_lr is set): {dims}")


def _rows_not_empty(inputs: Mapping[str, Tensor]) -> None:
    if 0 in np.shape(inputs["var"])[1:]:
        raise InvalidArgumentError("Inner dimension should be greater than zero.")


# --- kernels --------------------------------------------------------------------------------------------------------


def _build_apply(name: str, rule: Rule) -> Callable[..., Sequence[Any]]:
    """Return the kernel of a rule, with variables `[rows, ...]`, a gradient `[n, ...]` and `indices` `[n]`."""

    def apply(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        is_free = overwritable(inputs[: rule.variables], context)
        named = training_values(rule, inputs, attrs, context)
        for check in rule.checks:
            # one of the checks also reads an attr
            check({**attrs, **named})
        index = np.asarray(named.pop("indices"))
        named["grad"] = _rows_of_gradient(named["grad"], np.shape(named["var"])[1:])
        bad = first_outside(index, len(named["var"]))
        if bad == len(index) or name not in CHECKS_INDICES_FIRST:
            set_values(inputs[: rule.variables], _update_rows(rule, attrs, named, index[:bad], is_free), context)
        if bad < len(index):
            raise InvalidArgumentError(_bad_index_text(name, index, bad, len(named["var"])))
        return ref_output(inputs[0])

    return apply


def _rows_of_gradient(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a gradient as rows of this shape; a row of higher rank is flattened and cut to the shape's size."""
    # most kernels check only the variable's own axes, and read the gradient's memory as if it had no other axes
    if grad.ndim == 1 + len(shape):
        return grad
    return grad.reshape(len(grad), -1)[:, : prod(shape)].reshape(len(grad), *shape)


def _update_rows(rule: Rule, attrs: Attrs, named: Mapping[str, Tensor], index: Tensor, is_free: Sequence[bool]) -> list[Tensor]:
    """Return the variables' new values `[rows, ...]`; the rule is applied to rows `index` `[n]` with the rows of `grad`.

    A new value overwrites the old one if `is_free`.
    """
    values = [value if free else np.array(value) for value, free in zip(named.values(), is_free, strict=False)]
    for turn in split_turns(index):
        rows = index[turn]
        chosen = dict(zip(named, [value[rows] for value in values], strict=False)) | {"grad": named["grad"][: len(index)][turn]}
        updates = rule.update(attrs, *(chosen.get(name, value) for name, value in named.items()))
        for value, update in zip(values, updates, strict=True):
            value[rows] = update
    return values


def _bad_index_text(name: str, index: Tensor, bad: int, limit: int) -> str:
    # this kernel has the message of a scatter op
    if name == "KerasMomentum":
        return f"indices[{bad}] = {index[bad]} is not in [0, {limit})"
    return f"Index {index[bad]} at offset {bad} in indices is out of range"


def _rms_prop(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    # the dense rule, with the sparse kernel's order of operations
    var, ms, mom, lr, rho, momentum, epsilon, grad = inputs
    ms = ms * rho + np.square(grad) * (update_rules.one(rho) - rho)
    mom = mom * momentum + update_rules.rsqrt(ms + epsilon) * lr * grad
    return var - mom, ms, mom


def _centered_rms_prop(attrs: Attrs, *inputs: Tensor) -> Sequence[Tensor]:
    var, mg, ms, mom, lr, rho, momentum, epsilon, grad = inputs
    rest = update_rules.one(rho) - rho
    ms, mg = ms * rho + np.square(grad) * rest, mg * rho + grad * rest
    mom = mom * momentum + update_rules.rsqrt(ms + epsilon - np.square(mg)) * lr * grad
    return var - mom, mg, ms, mom


# --- shape functions ------------------------------------------------------------------------------------------------


def _merge_sparse_gradient(context: ShapeContext, index: int, dims: Dims) -> Dims:
    indices = with_rank(context.shapes[index + 1], 1)
    grad = context.shapes[index]
    if grad == ():
        raise ShapeError("Argument grad must not be a scalar. Got grad with rank 0")
    merge_dim(indices[0], -1 if grad is None else grad[0])
    return merge(dims, replace_dim(grad, 0, -1))


def _check_indices(context: ShapeContext, index: int, dims: Dims) -> Dims:
    # like dense resource ops, these do not check the gradient's shape
    with_rank(context.shapes[index + 1], 1)
    return dims


# --- rows -----------------------------------------------------------------------------------------------------------

_ROWS = (_indices_are_vector, _gradient_fits)
_FULL_ROWS = (*_ROWS, _rows_not_empty)
_MOMENTUM = (same_shape("accum"), _var_has_rows, scalar("lr", colon=" : "), *_ROWS, scalar("momentum"))
_RMS_SCALARS = scalars("lr rho momentum epsilon")
_FTRL = (
    *same_shapes("accum linear"),
    _var_has_rows,
    _indices_are_vector,
    _rate_is_positive,
    *signed_scalars("l1 l2 lr_power"),
    _gradient_fits,
    _rows_not_empty,
)

CHECKS: dict[str, tuple[Check, ...]] = {
    "Adadelta": (
        same_shape("accum", "accum_grad"),
        same_shape("accum_update"),
        _var_has_rows,
        *scalars("lr rho epsilon"),
        *_ROWS,
    ),
    "ProximalGradientDescent": (_var_has_rows, scalar("alpha", "lr"), *scalars("l1 l2"), *_FULL_ROWS),
    "Adagrad": (same_shape("accum"), _var_has_rows, scalar("lr"), _indices_are_vector, _gradient_has_rank, *_FULL_ROWS),
    "AdagradV2": (
        same_shape("accum"),
        _var_has_rows,
        *scalars("lr epsilon"),
        _indices_are_vector,
        _gradient_has_rank,
        *_FULL_ROWS,
    ),
    "ProximalAdagrad": (same_shape("accum"), _var_has_rows, *signed_scalars("lr l1 l2"), *_FULL_ROWS),
    "AdagradDA": (
        same_shape("gradient_accumulator", "accum"),
        same_shape("gradient_squared_accumulator", "accum"),
        _var_has_rows,
        _indices_are_vector,
        *scalars("lr l1 l2 global_step"),
        _gradient_fits,
        _rows_not_empty,
    ),
    "Momentum": _MOMENTUM,
    "KerasMomentum": _MOMENTUM,
    "RMSProp": (*_RMS_SCALARS, *same_shapes("ms mom"), _var_has_rows, *_ROWS),
    "CenteredRMSProp": (*_RMS_SCALARS, *same_shapes("mg ms mom"), _var_has_rows, *_ROWS),
    "Ftrl": _FTRL,
    "FtrlV2": (*_FTRL, signed_scalar("l2_shrinkage")),
}
"""The checks of each sparse op, in the kernel's order."""
UPDATES = {"RMSProp": _rms_prop, "CenteredRMSProp": _centered_rms_prop}
"""Updates that differ from the dense ones."""


def _sparse_rule(name: str) -> Rule:
    """Return the dense rule with `indices` after the gradient, and with the sparse kernel's checks and update."""
    dense = optimizers.RULES[name]
    inputs = (*dense.inputs[: dense.gradient], "grad", "indices", *dense.inputs[dense.gradient + 1 :])
    return dense._replace(inputs=inputs, update=UPDATES.get(name, dense.update), checks=CHECKS[name])


RULES = {name: _sparse_rule(name) for name in CHECKS}


def _cost(rule: Rule) -> CostModel:
    access = SliceAccess(per_element(rule.gradient), rule.variables, updates=True)
    return CostModel("scatter", rule.passes or ONE_PASS, access)


def _build_resource(name: str) -> Kernel:
    rule = RULES[name]
    infer = build_infer_apply(rule, True, _check_indices)
    memory = touches_rows(rule.variables)
    return Kernel(_build_apply(name, rule), infer, build_flops(rule), needs_context=True, memory=memory, cost=_cost(rule))


def _build_ref(name: str) -> Kernel:
    rule = RULES[name]
    infer = build_infer_apply(rule, False, _merge_sparse_gradient)
    return Kernel(_build_apply(name, rule), infer, build_flops(rule), needs_context=True, cost=_cost(rule))


TABLE: Table = {
    "ResourceSparseApplyAdadelta": _build_resource("Adadelta"),
    "SparseApplyAdadelta": _build_ref("Adadelta"),
    "ResourceSparseApplyProximalGradientDescent": _build_resource("ProximalGradientDescent"),
    "SparseApplyProximalGradientDescent": _build_ref("ProximalGradientDescent"),
    "ResourceSparseApplyAdagrad": _build_resource("Adagrad"),
    "SparseApplyAdagrad": _build_ref("Adagrad"),
    "ResourceSparseApplyAdagradV2": _build_resource("AdagradV2"),
    "SparseApplyAdagradV2": _build_ref("AdagradV2"),
    "ResourceSparseApplyProximalAdagrad": _build_resource("ProximalAdagrad"),
    "SparseApplyProximalAdagrad": _build_ref("ProximalAdagrad"),
    "ResourceSparseApplyAdagradDA": _build_resource("AdagradDA"),
    "SparseApplyAdagradDA": _build_ref("AdagradDA"),
    "ResourceSparseApplyMomentum": _build_resource("Momentum"),
    "SparseApplyMomentum": _build_ref("Momentum"),
    "ResourceSparseApplyKerasMomentum": _build_resource("KerasMomentum"),
    "ResourceSparseApplyRMSProp": _build_resource("RMSProp"),
    "SparseApplyRMSProp": _build_ref("RMSProp"),
    "ResourceSparseApplyCenteredRMSProp": _build_resource("CenteredRMSProp"),
    "SparseApplyCenteredRMSProp": _build_ref("CenteredRMSProp"),
    "ResourceSparseApplyFtrl": _build_resource("Ftrl"),
    "SparseApplyFtrl": _build_ref("Ftrl"),
    "ResourceSparseApplyFtrlV2": _build_resource("FtrlV2"),
    "SparseApplyFtrlV2": _build_ref("FtrlV2"),
}
