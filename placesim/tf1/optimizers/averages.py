"""Moving averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.optimizers.slots import create_slot, create_zeros_slot
from placesim.tf1.optimizers.updates import Hyperparameter
from placesim.tf1.variables.variable import Variable

_AVERAGED = ("float16", "bfloat16", "float32", "float64")


def assign_moving_average(variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None) -> Any:
    """`variable -= (variable - value) * (1 - decay)`, corrected for a start at zero if `zero_debias`."""
    with tf.name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        share = tf.convert_to_tensor(1.0 - decay, name="decay")
        if share.dtype.base_dtype != variable.dtype.base_dtype:
            share = tf.cast(share, variable.dtype.base_dtype)
        if zero_debias:
            return tf.assign(variable, _unbiased(variable, value, share), name=scope)
        return tf.assign_sub(variable, (variable - value) * share, name=scope)


def _unbiased(variable: Any, value: TensorLike, share: Tensor) -> Any:
    """Update an average that starts at zero, and correct it for that start.  Adds variables for the uncorrected average."""
    scope = tf.variable_scope(variable.name.split(":")[0], values=[variable, value, share])
    with scope, tf.init_scope(), tf.colocate_with(variable):
        shape = variable.get_shape()
        dtype = variable.dtype.base_dtype
        zeros = tf.zeros_initializer(dtype=dtype)
        biased = tf.get_variable("biased", shape, dtype, zeros, trainable=False)
        count = tf.get_variable("local_step", [], dtype, zeros, trainable=False)
    update = tf.assign_sub(biased, (biased - value) * share)
    step = tf.assign_add(count, 1)
    return update / (1 - tf.pow(1.0 - share, step))


class ExponentialMovingAverage:
    """Moving averages of variables or tensors.  `apply` makes a variable `AVERAGED/NAME` for each."""

    def __init__(
        self,
        decay: Hyperparameter,
        num_updates: TensorLike | None = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates, self._zero_debias, self._name = decay, num_updates, zero_debias, name
        self._averages: dict[Any, Any] = {}
        self._from_zero: set[int] = set()
        self._kept: list[Any] = []

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Any:
        """Op that updates the averages, which are created if needed.  Raises TypeError for unsupported types."""
        variables = list(tf.trainable_variables() if var_list is None else var_list)
        for variable in variables:
            if variable.dtype.base_dtype.name not in _AVERAGED:
                raise TypeError(f"The variables must be half, float, or double: {variable.name}")
            if id(variable) not in self._averages:
                with tf.init_scope():
                    self._averages[id(variable)] = self._new(variable)
                    self._kept.append(variable)
        with tf.name_scope(self._name) as scope:
            decay = self._current_decay()
            updates = [
                assign_moving_average(average, variable, decay, zero_debias=id(average) in self._from_zero)
                for variable, average in ((variable, self._averages[id(variable)]) for variable in variables)
            ]
            return tf.group(*updates, name=scope)

    def _current_decay(self) -> Any:
        """The decay as a tensor; with `num_updates` it is lower in the first steps."""
        decay = tf.convert_to_tensor(self._decay, dtype=tf.float32, name="decay")
        if self._num_updates is None:
            return decay
        steps = tf.cast(self._num_updates, tf.float32, name="num_updates")
        early = (1.0 + steps) / (10.0 + steps)
        return tf.minimum(decay, early)

    def _new(self, variable: Any) -> Any:
        if isinstance(variable, Variable):
            with tf.device(variable.device):
                start = tf.cond(tf.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value)
            average = create_slot(variable, start, self._name)
            tf.add_to_collection("moving_average_variables", variable)
            return average
        is_variable = variable.op.type in ("Variable", "VariableV2", "VarHandleOp")
        average = create_zeros_slot(variable, self._name, colocate_with_primary=is_variable)
        if self._zero_debias:
            self._from_zero.add(id(average))
        return average

    def average(self, var: object) -> Any:
        """The variable of an average; None before `apply`."""
        return self._averages.get(id(var))

    def average_name(self, var: Any) -> str:
        """The name of an average's variable, which may not exist yet."""
        if id(var) in self._averages:
            return str(self._averages[id(var)].name[: -len(":0")])
        return str(tf.get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False))

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """Map names in a checkpoint to variables; the average's name is mapped to the variable that was averaged."""
        if moving_avg_variables is None:
            averaged = tf.trainable_variables() + tf.moving_average_variables()
        else:
            averaged = list(moving_avg_variables)
        found = {self.average_name(variable): variable for variable in dict.fromkeys(averaged)}
        names = {variable.name for variable in averaged}
        for variable in tf.global_variables():
            if variable.name not in names and variable.op.name not in found:
                found[variable.op.name] = variable
        return found
