"""Dense training ops: each optimizer is a rule with checks, from which its ref op and its resource op are built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InternalError, InvalidArgumentError, NotFoundError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.blocks.work_parts import parts
from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel, Passes
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource
from placesim.ops.kernels.kernel import Flops, Kernel, KernelContext, Table, Tensor, elements
from placesim.ops.kernels.memory_rules import writes_variables
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction, format_dims, merge, with_rank
from placesim.ops.kernels.state import update_rules
from placesim.ops.kernels.state.variables import find_variable, ref_output, typed_value
from placesim.ops.process.buffer_ownership import may_overwrite
from placesim.ops.process.intra_op_threads import spread

PART_BYTES = 1 << 19
"""Bytes of each variable in a part of an update: temporaries stay in a cache, and threads rarely wait for each other."""

Check = Callable[[Mapping[str, Tensor]], None]
"""A function that raises InvalidArgumentError unless an op's inputs, by name, are valid."""


MergeGradient = Callable[[ShapeContext, int, Dims], Dims]
"""A function `(context, gradient's position, variables' shape) -> shape merged with the gradient's`."""


class Rule(NamedTuple):
    """An optimizer, for variables that are refs or resources.

    `inputs` has the names of the op's inputs; the first `variables` of them are the variables. `update` takes attrs and the
    inputs' values, and returns the variables' new values; it may overwrite the old ones. `operations` are floating point
    operations per element of the gradient. `checks` are in the kernel's order, as the first one that fails determines the
    message. `passes` are those of `update`, if counted.
    """

    inputs: tuple[str, ...]
    variables: int
    update: Callable[..., Sequence[Tensor]]
    operations: int
    checks: tuple[Check, ...]
    passes: Passes | None = None

    @property
    def gradient(self) -> int:
        """The position of the gradient among the inputs."""
        return next(i for i, name in enumerate(self.inputs) if name in ("grad", "delta"))

    @property
    def cost(self) -> CostModel:
        """The cost of the update of a dense variable."""
        cost = CostModel("optimizer", self.passes) if self.passes else ELEMENTWISE
        return cost._replace(updated=self.variables)


# --- checks ---------------------------------------------------------------------------------------------------------

SCALAR_NAMES = {
    # names of inputs in messages
    "l1": "l1 regularization strength",
    "l2": "l2 regularization strength",
    "l2_shrinkage": "l2 shrinkage regularization strength",
}
SIGNS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    # the sign that some kernels check
    "lr": ("positive", lambda x: bool(x > 0)),
    "l1": ("non-negative", lambda x: bool(x >= 0)),
    "l2": ("non-negative", lambda x: bool(x >= 0)),
    "l2_shrinkage": ("non-negative", lambda x: bool(x >= 0)),
    "lr_power": ("non-positive", lambda x: bool(x <= 0)),
}


def scalar(name: str, called: str = "", colon: str = ": ") -> Check:
    """Return a check that raises InvalidArgumentError unless an input is a scalar.

    Messages use `called` for the input's name, and put `colon` before the input's shape.
    """

    def check(inputs: Mapping[str, Tensor]) -> None:
        dims = np.shape(inputs[name])
        if dims:
            raise InvalidArgumentError(f"{called or SCALAR_NAMES.get(name, name)} is not a scalar{colon}{format_dims(dims)}")

    return check


def signed_scalar(name: str) -> Check:
    """Return a check that raises InvalidArgumentError unless an input is a scalar with its sign in SIGNS."""
    sign, has_sign = SIGNS[name]

    def check(inputs: Mapping[str, Tensor]) -> None:
        dims = np.shape(inputs[name])
        # for a wrong sign, too, TensorFlow's message has the shape, []
        if dims or not has_sign(inputs[name]):
            raise InvalidArgumentError(f"{SCALAR_NAMES.get(name, name)} is not a {sign} scalar: {format_dims(dims)}")

    return check


def same_shape(name: str, called: str = "", shown: str = "") -> Check:
    """Return a check that raises InvalidArgumentError unless an input has the shape of the first variable.

    Messages use `called` for the input's name. If `shown` is given, they show the shape of input `shown`, not of this input.
    """

    def check(inputs: Mapping[str, Tensor]) -> None:
        one, two = np.shape(inputs["var"]), np.shape(inputs[name])
        if one != two:
            given = np.shape(inputs[shown or name])
            raise InvalidArgumentError(
                f"var and {called or name} do not have the same shape{format_dims(one)} {format_dims(given)}"
            )

    return check


def _check_sign_decay(inputs: Mapping[str, Tensor]) -> None:
    """Raise InvalidArgumentError unless there is one number; TensorFlow lacks this check, and its process ends."""
    if np.size(inputs["sign_decay"]) != 1:
        raise InvalidArgumentError(f"sign_decay is not a scalar: {format_dims(np.shape(inputs['sign_decay']))}")


def scalars(names: str) -> tuple[Check, ...]:
    """Return a check `scalar` for each name."""
    return tuple(map(scalar, names.split()))


def signed_scalars(names: str) -> tuple[Check, ...]:
    """Return a check `signed_scalar` for each name."""
    return tuple(map(signed_scalar, names.split()))


def same_shapes(names: str) -> tuple[Check, ...]:
    """Return a check `same_shape` for each name."""
    return tuple(map(same_shape, names.split()))


# --- kernels --------------------------------------------------------------------------------------------------------


def training_values(rule: Rule, inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> dict[str, Tensor]:
    """Return the op's inputs by name, with the variables' values. Raises InternalError for an invalid resource variable.

    Raises FailedPreconditionError for a ref that was never written.
    """
    try:
        values = [typed_value(holder, context, attrs["T"]) for holder in inputs[: rule.variables]]
    except (InvalidArgumentError, NotFoundError):
        raise InternalError("Invalid variable reference.") from None
    return dict(zip(rule.inputs, [*values, *inputs[rule.variables :]], strict=True))


def set_values(holders: Sequence[VariableResource | ResourceHandle], values: Sequence[Tensor], context: KernelContext) -> None:
    """Set the values of ref or resource variables."""
    for holder, value in zip(holders, values, strict=True):
        find_variable(holder, context).value = value


def _build_apply(rule: Rule) -> Callable[..., Sequence[Any]]:
    """Return the kernel of a rule, which runs the checks and returns the first variable's ref, or nothing for a resource."""

    def apply(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        is_free = overwritable(inputs[: rule.variables], context)
        named = training_values(rule, inputs, attrs, context)
        for check in rule.checks:
            check(named)
        set_values(inputs[: rule.variables], _update_in_parts(rule, attrs, list(named.values()), is_free), context)
        return ref_output(inputs[0])

    return apply


def overwritable(holders: Sequence[VariableResource | ResourceHandle], context: KernelContext) -> list[bool]:
    """Return for each variable whether its memory can take the new value; invalid variables are reported later."""
    try:
        found = [find_variable(holder, context) for holder in holders]
    except (InvalidArgumentError, NotFoundError):
        return [False] * len(holders)
    return [found.count(variable) == 1 and may_overwrite(variable) for variable in found]


def _update_in_parts(rule: Rule, attrs: Attrs, values: Sequence[Tensor], is_free: Sequence[bool]) -> Sequence[Tensor]:
    """Return the variables' new values, updated in parts if large; a new value overwrites the old one if `is_free`."""
    shape, dtype = np.shape(values[0]), np.asarray(values[0]).dtype
    size, count = prod(shape), len(is_free)
    if size * dtype.itemsize <= PART_BYTES:
        own = [value if free else np.array(value) for value, free in zip(values, is_free, strict=False)]
        return rule.update(attrs, *own, *values[count:])
    rows = [np.reshape(value, -1) if np.shape(value) == shape else None for value in values]
    results: list[Tensor] = [
        value if free and value.shape == shape else np.empty(shape, dtype)
        for value, free in zip(values, is_free, strict=False)  # the variables are the first inputs
    ]
    flat = [result.reshape(-1) for result in results]

    def update(part: slice) -> None:
        some = [value if row is None else row[part] for value, row in zip(values, rows, strict=True)]
        own = [result[part] for result in flat]
        for target, before, result, value in zip(own, some, results, values, strict=False):
            if result is not value:
                target[...] = before
        for target, updated in zip(own, rule.update(attrs, *own, *some[count:]), strict=True):
            if updated is not target:
                target[...] = updated

    spread(update, list(parts(size, dtype.itemsize, PART_BYTES)))
    return results


# --- shape functions ------------------------------------------------------------------------------------------------


def build_infer_apply(rule: Rule, is_resource: bool, merge_gradient: MergeGradient) -> ShapeFunction:
    """Return a shape function: variables and gradient must have one shape, and the other inputs must be scalars.

    A ref op returns that shape, a resource op none.
    """
    names = [name for name in rule.inputs if name != "indices"]
    # FtrlV2 has the shape function of Ftrl, which does not check a fifth scalar after the gradient
    seen = [rule.inputs.index(name) for name in names[: rule.gradient + 5]]

    def infer_apply(context: ShapeContext) -> Sequence[Dims]:
        dims: Dims = None
        for index in seen:
            if index < rule.variables:
                handle = context.handles[index]
                dims = merge(dims, handle.shape if handle else None if is_resource else context.shapes[index])
            elif index == rule.gradient:
                dims = merge_gradient(context, index, dims)
            else:
                with_rank(context.shapes[index], 0)
        return () if is_resource else (dims,)

    return infer_apply


def _merge_gradient(context: ShapeContext, index: int, dims: Dims) -> Dims:
    return merge(dims, context.shapes[index])


def _pass_gradient(context: ShapeContext, index: int, dims: Dims) -> Dims:
    # most resource ops wrongly look for a handle's shape in the gradient, and find none
    return dims


# --- costs ----------------------------------------------------------------------------------------------------------


def build_flops(rule: Rule) -> Flops:
    """Return the cost: the rule's operations for each element of the gradient."""
    return lambda inputs, outputs, attrs: rule.operations * elements(inputs[rule.gradient])


# --- rows -----------------------------------------------------------------------------------------------------------

_ADAM_SCALARS = (
    *scalars("beta1_power beta2_power"),
    scalar("lr", colon=" : "),
    *scalars("beta1 beta2 epsilon"),
)
_RMS_SCALARS = (scalar("lr", colon=" : "), *scalars("rho momentum epsilon"))
_ONE_SLOT = (scalar("lr"), *same_shapes("accum grad"))
_FTRL = (*same_shapes("accum linear grad"), *scalars("lr l1 l2"), scalar("lr_power", colon=""))

RULES: dict[str, Rule] = {
    "GradientDescent": Rule(
        inputs=("var", "alpha", "delta"),
        variables=1,
        update=update_rules.gradient_descent,
        operations=2,
        passes=Passes(plain=2),
        checks=(scalar("alpha"), same_shape("delta")),
    ),
    "ProximalGradientDescent": Rule(
        inputs=("var", "alpha", "l1", "l2", "delta"),
        variables=1,
        update=update_rules.proximal_gradient_descent,
        operations=8,
        checks=(*scalars("alpha l1 l2"), same_shape("delta")),
    ),
    "Adadelta": Rule(
        inputs=("var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"),
        variables=3,
        update=update_rules.adadelta,
        operations=15,
        passes=Passes(plain=12, divided=1, rooted=2),
        # TensorFlow's kernel does not check `accum_update`, and reads beyond its end
        checks=(*scalars("lr rho epsilon"), *same_shapes("accum grad accum_update")),
    ),
    "Adagrad": Rule(
        inputs=("var", "accum", "lr", "grad"),
        variables=2,
        update=update_rules.adagrad,
        operations=6,
        passes=Passes(plain=5, divided=1, rooted=1),
        checks=_ONE_SLOT,
    ),
    "AdagradV2": Rule(
        inputs=("var", "accum", "lr", "epsilon", "grad"),
        variables=2,
        update=update_rules.adagrad_v2,
        operations=7,
        passes=Passes(plain=5, divided=1, rooted=1),
        checks=(*scalars("lr epsilon"), *same_shapes("accum grad")),
    ),
    "ProximalAdagrad": Rule(
        inputs=("var", "accum", "lr", "l1", "l2", "grad"),
        variables=2,
        update=update_rules.proximal_adagrad,
        operations=13,
        checks=(same_shape("accum"), *signed_scalars("lr l1 l2"), same_shape("grad")),
    ),
    "AdagradDA": Rule(
        inputs=("var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step"),
        variables=3,
        update=update_rules.adagrad_da,
        operations=11,
        checks=(
            same_shape("gradient_accumulator", "accum"),
            same_shape("gradient_squared_accumulator", "accum"),
            same_shape("grad"),
            *scalars("lr l1 l2 global_step"),
        ),
    ),
    "Momentum": Rule(
        inputs=("var", "accum", "lr", "grad", "momentum"),
        variables=2,
        update=update_rules.momentum,
        operations=4,
        passes=Passes(plain=4),
        checks=(*_ONE_SLOT, scalar("momentum")),
    ),
    "KerasMomentum": Rule(
        inputs=("var", "accum", "lr", "grad", "momentum"),
        variables=2,
        update=update_rules.keras_momentum,
        operations=4,
        passes=Passes(plain=4),
        checks=(*_ONE_SLOT, scalar("momentum")),
    ),
    "Adam": Rule(
        inputs=("var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"),
        variables=3,
        update=update_rules.adam,
        operations=12,
        passes=Passes(plain=10, divided=1, rooted=1),
        checks=(*_ADAM_SCALARS, *same_shapes("m v grad")),
    ),
    "AdamWithAmsgrad": Rule(
        inputs=("var", "m", "v", "vhat", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"),
        variables=4,
        update=update_rules.adam_with_amsgrad,
        operations=13,
        checks=(*_ADAM_SCALARS, *same_shapes("m v grad vhat")),  # TensorFlow does not check `vhat`
    ),
    "AdaMax": Rule(
        inputs=("var", "m", "v", "beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"),
        variables=3,
        update=update_rules.adamax,
        operations=10,
        passes=Passes(plain=8, divided=1),
        checks=(_ADAM_SCALARS[0], *_ADAM_SCALARS[2:], *same_shapes("m v grad")),
    ),
    "RMSProp": Rule(
        inputs=("var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"),
        variables=3,
        update=update_rules.rms_prop,
        operations=11,
        passes=Passes(plain=8, divided=1, rooted=1),
        checks=(*_RMS_SCALARS, *same_shapes("ms mom grad")),
    ),
    "CenteredRMSProp": Rule(
        inputs=("var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"),
        variables=4,
        update=update_rules.centered_rms_prop,
        operations=16,
        passes=Passes(plain=12, divided=1, rooted=1),
        checks=(*_RMS_SCALARS, same_shape("mg", shown="ms"), *same_shapes("ms mom grad")),
    ),
    "AddSign": Rule(
        inputs=("var", "m", "lr", "alpha", "sign_decay", "beta", "grad"),
        variables=2,
        update=update_rules.add_sign,
        operations=11,
        checks=(*scalars("lr alpha beta"), *same_shapes("m grad"), _check_sign_decay),
    ),
    "PowerSign": Rule(
        inputs=("var", "m", "lr", "logbase", "sign_decay", "beta", "grad"),
        variables=2,
        update=update_rules.power_sign,
        operations=11,
        checks=(*scalars("lr logbase beta"), *same_shapes("m grad"), _check_sign_decay),
    ),
    "Ftrl": Rule(
        inputs=("var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"),
        variables=3,
        update=update_rules.ftrl,
        operations=18,
        passes=Passes(plain=10, divided=2, special=2, chosen=1),
        checks=_FTRL,
    ),
    "FtrlV2": Rule(
        inputs=("var", "accum", "linear", "grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"),
        variables=3,
        update=update_rules.ftrl_v2,
        operations=21,
        checks=(*_FTRL, scalar("l2_shrinkage")),
    ),
}
RESOURCE_SEES_GRADIENT = ("GradientDescent", "ProximalAdagrad")
"""Optimizers whose resource op checks the gradient's shape."""


def _build_resource(name: str) -> Kernel:
    rule = RULES[name]
    merge_gradient = _merge_gradient if name in RESOURCE_SEES_GRADIENT else _pass_gradient
    infer = build_infer_apply(rule, True, merge_gradient)
    memory = writes_variables(rule.variables)
    return Kernel(_build_apply(rule), infer, build_flops(rule), needs_context=True, memory=memory, cost=rule.cost)


def _build_ref(name: str) -> Kernel:
    rule = RULES[name]
    infer = build_infer_apply(rule, False, _merge_gradient)
    return Kernel(_build_apply(rule), infer, build_flops(rule), needs_context=True, cost=rule.cost)


TABLE: Table = {
    "ResourceApplyGradientDescent": _build_resource("GradientDescent"),
    "ApplyGradientDescent": _build_ref("GradientDescent"),
    "ResourceApplyProximalGradientDescent": _build_resource("ProximalGradientDescent"),
    "ApplyProximalGradientDescent": _build_ref("ProximalGradientDescent"),
    "ResourceApplyAdadelta": _build_resource("Adadelta"),
    "ApplyAdadelta": _build_ref("Adadelta"),
    "ResourceApplyAdagrad": _build_resource("Adagrad"),
    "ApplyAdagrad": _build_ref("Adagrad"),
    "ResourceApplyAdagradV2": _build_resource("AdagradV2"),
    "ApplyAdagradV2": _build_ref("AdagradV2"),
    "ResourceApplyProximalAdagrad": _build_resource("ProximalAdagrad"),
    "ApplyProximalAdagrad": _build_ref("ProximalAdagrad"),
    "ResourceApplyAdagradDA": _build_resource("AdagradDA"),
    "ApplyAdagradDA": _build_ref("AdagradDA"),
    "ResourceApplyMomentum": _build_resource("Momentum"),
    "ApplyMomentum": _build_ref("Momentum"),
    "ResourceApplyKerasMomentum": _build_resource("KerasMomentum"),
    "ResourceApplyAdam": _build_resource("Adam"),
    "ApplyAdam": _build_ref("Adam"),
    "ResourceApplyAdamWithAmsgrad": _build_resource("AdamWithAmsgrad"),
    "ResourceApplyAdaMax": _build_resource("AdaMax"),
    "ApplyAdaMax": _build_ref("AdaMax"),
    "ResourceApplyRMSProp": _build_resource("RMSProp"),
    "ApplyRMSProp": _build_ref("RMSProp"),
    "ResourceApplyCenteredRMSProp": _build_resource("CenteredRMSProp"),
    "ApplyCenteredRMSProp": _build_ref("CenteredRMSProp"),
    "ResourceApplyAddSign": _build_resource("AddSign"),
    "ApplyAddSign": _build_ref("AddSign"),
    "ResourceApplyPowerSign": _build_resource("PowerSign"),
    "ApplyPowerSign": _build_ref("PowerSign"),
    "ResourceApplyFtrl": _build_resource("Ftrl"),
    "ApplyFtrl": _build_ref("Ftrl"),
    "ResourceApplyFtrlV2": _build_resource("FtrlV2"),
    "ApplyFtrlV2": _build_ref("FtrlV2"),
}
