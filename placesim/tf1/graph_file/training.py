"""`gradients` and `train` of a graph file: make the nodes of `tf.gradients` and of optimizers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import placesim.tf1 as tf
from placesim.formats.graph_file.entries.control_flow_entries import OuterTensor, OuterVariable
from placesim.graph import argument_binding
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.tf1.exports.optimizers import KINDS
from placesim.tf1.gradients.aggregation import sum_slices
from placesim.tf1.graph_file.control_flow import FileFunctions
from placesim.tf1.graph_file.graph import BodyView, FileGraph, file_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.sparse.values import IndexedSlices


class OptimizerArgument(NamedTuple):
    """Argument of an optimizer.  `kind` is `figure` (a number), `tensor` (a number or tensor), `flag`, `text` or `variable`."""

    kind: str
    is_required: bool


_PARAMETER_KINDS = {"bool": "flag", "str": "text", "str | None": "text", "float": "figure", "float | None": "figure"}


class FileTraining:
    """Makes the nodes of a file's entries.  Arguments are TensorRefs, variables of the builder, or numbers.

    Methods that add nodes raise GraphBuildError with the message and type of TensorFlow's error.
    """

    def __init__(self, builder: ScopedGraphBuilder) -> None:
        self._graph: FileGraph | BodyView = builder.view if isinstance(builder.view, BodyView) else file_graph(builder)
        self._slices: dict[TensorRef, IndexedSlices] = {}

    # --- gradients ------------------------------------------------------------------------------------------------------

    def derive(
        self, of: Sequence[Any], by: Sequence[Any] | None, options: Mapping[str, Any], position: int
    ) -> list[tuple[Any, TensorRef | None]]:
        """Return each item of `by` with the gradient of `of`, or with None if `of` does not depend on the item.

        Without `by`, the items are all trainable variables.  For a `tf.IndexedSlices`, its values are returned; see `rows`.
        """
        with self._graph.building(position):
            if by is None:
                by = [self._known(variable) for variable in tf.trainable_variables()]
            given = {key: self._value(value) for key, value in options.items()}
            targets = [self._target(item) for item in by]
            found = tf.gradients([self._value(item) for item in of], targets, **given)
            return [(item, self._ref(gradient)) for item, gradient in zip(by, found, strict=True)]

    def rows(self, gradient: TensorRef) -> TensorRef | None:
        """The row indices of a gradient that is a `tf.IndexedSlices`; None for a dense gradient."""
        slices = self._slices.get(gradient)
        return None if slices is None else slices.indices.node_ref

    def _ref(self, gradient: Any) -> TensorRef | None:
        if isinstance(gradient, IndexedSlices):
            self._slices[gradient.values.node_ref] = gradient
            return gradient.values.node_ref
        return None if gradient is None else gradient.node_ref

    def _gradient(self, ref: TensorRef) -> Tensor | IndexedSlices:
        return self._slices.get(ref) or self._graph.tensor(ref)

    # --- training -------------------------------------------------------------------------------------------------------

    def kinds(self) -> Sequence[str]:
        """The names of the optimizers."""
        return KINDS

    def parameters(self, kind: str) -> dict[str, OptimizerArgument] | None:
        """Arguments of the optimizer of this name; None if there is none."""
        if kind not in KINDS:
            return None
        found = inspect.signature(getattr(tf.train, kind + "Optimizer").__init__).parameters.values()
        return {
            item.name: OptimizerArgument(
                "variable" if item.name == "global_step" else _PARAMETER_KINDS.get(item.annotation, "tensor"),
                item.default is item.empty,
            )
            for item in found
            if item.name != "self"
        }

    def minimize(
        self, loss: TensorLike, optimizer: tuple[str, Mapping[str, Any]], options: Mapping[str, Any], position: int
    ) -> int:
        """Make the nodes of `tf.train.Optimizer.minimize`, and return the node that trains."""
        with self._graph.building(position):
            given = {key: self._value(value) for key, value in options.items()}
            return self._node(self._optimizer(*optimizer).minimize(self._value(loss), **given))

    def apply(
        self,
        pairs: Sequence[tuple[Sequence[TensorRef], Any]],
        optimizer: tuple[str, Mapping[str, Any]],
        options: Mapping[str, Any],
        position: int,
    ) -> int:
        """Make the nodes of `tf.train.Optimizer.apply_gradients`, and return the node that trains.

        If a variable has several gradients, their mean is made first.
        """
        with self._graph.building(position):
            given = {key: self._value(value) for key, value in options.items()}
            found = [([self._gradient(ref) for ref in gradients], self._value(item)) for gradients, item in pairs]
            means = [gradients[0] for gradients, _ in found]
            if any(len(gradients) > 1 for gradients, _ in found):
                with tf.name_scope("average"):
                    means = [_mean(gradients, item) for gradients, item in found]
            joined = zip(means, [item for _, item in found], strict=True)
            return self._node(self._optimizer(*optimizer).apply_gradients(list(joined), **given))

    def _optimizer(self, kind: str, figures: Mapping[str, Any]) -> Any:
        return getattr(tf.train, kind + "Optimizer")(**{key: self._value(value) for key, value in figures.items()})

    def _node(self, made: Any) -> int:
        return int(getattr(made, "op", made).node.id)

    # --- tensors and variables of entries -------------------------------------------------------------------------------

    def _value(self, item: object) -> Any:
        if isinstance(item, OuterVariable):
            return cast("FileFunctions", item.functions).variable(item.variable)
        if isinstance(item, OuterTensor):
            return cast("FileFunctions", item.functions).tensor(item.tensor)
        if isinstance(item, argument_binding.VariableNodes):
            return cast("FileGraph", self._graph).variable(item.node)
        if isinstance(item, TensorRef):
            return self._graph.tensor(item)
        return [self._value(part) for part in item] if isinstance(item, list) else item

    def _target(self, item: object) -> Any:
        """Tensor to differentiate by; for a variable its reference or handle, as in optimizers."""
        found = self._value(item)
        return found._tensor if isinstance(item, argument_binding.VariableNodes | OuterVariable) else found

    def _known(self, variable: Any) -> argument_binding.VariableNodes | OuterVariable:
        builder = variable.graph.builder
        found = builder.variables[variable.op.node.id]
        return found if builder is self._graph.builder else OuterVariable(cast("Any", FileFunctions(builder)), found)


def _mean(gradients: Sequence[Any], variable: Any) -> Any:
    """The mean of a variable's gradients, in the variable's name scope; rows of IndexedSlices are concatenated."""
    if len(gradients) == 1:
        return gradients[0]
    with tf.name_scope(variable.op.name) as scope:
        part = 1.0 / len(gradients)
        if any(isinstance(gradient, IndexedSlices) for gradient in gradients):
            total = sum_slices(gradients)
            if isinstance(total, IndexedSlices):
                return IndexedSlices(tf.multiply(total.values, part, name=scope), total.indices, total.dense_shape)
            return tf.multiply(total, part, name=scope)
        return tf.multiply(tf.add_n(list(gradients), name="sum"), part, name=scope)
