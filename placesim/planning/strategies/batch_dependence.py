"""Dependence of a forward pass on the batch, which determines how results of parts of the batch can be combined.

The mean of the parts' means is the mean of the batch, and the sum of the parts' sums is the sum of the batch. Other functions
of the whole batch cannot be computed from the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from placesim.core.errors import UsageError
from placesim.graph.graph import Node, TensorRef
from placesim.ops.categories import CONSTANTS, SHAPE_OPS
from placesim.ops.kernels import has_trait, mixing_of
from placesim.ops.kernels.kernel import Trait
from placesim.planning.strategies.batch_shapes import BatchShapes, moved_inputs


class Dependence(Enum):
    """A tensor's dependence on the batch.

    ROWS and FILLED hold a row per example along a dimension, but values of FILLED depend on no example. MEAN and SUM are linear
    functions of a mean or a sum over the examples. SIZE depends only on the number of examples. STATISTIC is any other function
    of several examples.
    """

    NONE = "none"
    ROWS = "rows"
    FILLED = "filled"
    MEAN = "mean"
    SUM = "sum"
    SIZE = "size"
    STATISTIC = "statistic"


_LINEAR = (Trait.LINEAR, Trait.MOVES_ELEMENTS, Trait.PASSES_ON, Trait.SHARES_MEMORY)
"""Traits of ops that are linear in their first input or in all inputs, if their other inputs do not depend on the batch."""
_DATALESS = frozenset((Dependence.NONE, Dependence.SIZE, Dependence.FILLED))


class BatchDependence:
    """The dependence of each tensor of a forward pass; `local_statistics` are nodes where examples influence each other.

    `factors` has tensors that a part must multiply by a number. For example, a sum over the batch may be divided by the batch
    size, or multiplied by its reciprocal. In a part, the factor corrects it to the mean of the part. Nodes that compute equal
    values, such as recomputed ones, count as one.
    """

    def __init__(self, shapes: BatchShapes) -> None:
        self._shapes = shapes
        self._graph = shapes.training.graph
        self._found: dict[TensorRef, Dependence] = dict.fromkeys(shapes.training.batch, Dependence.ROWS)
        self._reasons: dict[TensorRef, Node] = {}
        self.local_statistics: list[Node] = []
        self.factors: dict[TensorRef, float] = {}
        self._constants: set[int] = set()
        forward = frozenset(shapes.training.forward)
        order = [self._graph.nodes[number] for number in self._graph.runtime_order() if number in forward]
        self._first: dict[int, int] = {}
        self._find_equal_nodes(order)
        different = (node for node in order if node.id not in self._first)
        self._forward_reads = Counter(self._first_ref(ref) for node in different for ref in node.inputs)
        for node in order:
            self._enter(node)
        for number, first in self._first.items():
            for slot in range(len(self._graph.nodes[number].signature.output_dtypes)):
                factor = self.factors.get(TensorRef(first, slot))
                if factor is not None:
                    self.factors[TensorRef(number, slot)] = factor

    def of(self, ref: TensorRef) -> Dependence:
        """Return the dependence of a tensor; a tensor outside the forward pass does not depend on the batch."""
        return self._found.get(ref, Dependence.NONE)

    def of_loss(self) -> Dependence:
        """Return MEAN or SUM for the loss. Raises UsageError for a loss that cannot be computed from parts of the batch."""
        loss = self._shapes.training.loss
        found = self.of(loss)
        if found in (Dependence.MEAN, Dependence.SUM):
            return found
        if found is Dependence.ROWS:
            return Dependence.SUM  # tf.gradients adds the gradients of all elements
        name = self._graph.nodes[loss.node].name
        if found is Dependence.STATISTIC:
            raise UsageError(
                f"loss cannot be computed in parts: got {name}, {self.reason(loss)}, expected a mean or a sum over the batch"
            )
        raise UsageError(f"loss does not depend on the batch: got {name}; name the tensors that hold the batch with --split")

    def reason(self, ref: TensorRef) -> str:
        """Return why a tensor is neither a mean nor a sum over the batch."""
        node = self._reasons.get(ref, self._graph.nodes[ref.node])
        kinds = {self.of(source) for source in node.inputs}
        if has_trait(node.op, Trait.ADDS) and Dependence.NONE in kinds and Dependence.SUM in kinds:
            return f"in which {node.name} ({node.op}) adds a term without the batch to a sum over the batch"
        if has_trait(node.op, Trait.DIVIDES):
            return f"in which {node.name} ({node.op}) divides by a number that depends on the examples"
        return f"in which {node.name} ({node.op}) is not linear in the examples' results"

    def _find_equal_nodes(self, order: Sequence[Node]) -> None:
        """Set `_first`: map each node to the first node with the same op, attrs and inputs."""
        known: dict[tuple[object, ...], int] = {}
        for node in order:
            if node.op not in CONSTANTS and not node.signature.is_stateful:
                attrs = sorted((name, repr(value)) for name, value in node.attrs.items() if not name.startswith("_"))
                first = known.setdefault((node.op, *attrs, *map(self._first_ref, node.inputs)), node.id)
                if first != node.id:
                    self._first[node.id] = first

    def _first_ref(self, ref: TensorRef) -> TensorRef:
        return ref._replace(node=self._first.get(ref.node, ref.node))

    def _enter(self, node: Node) -> None:
        inputs = [*node.inputs]
        self._refuse_mixed_examples(node)
        if self._constants.issuperset(node.input_nodes) and not node.signature.is_stateful:
            self._constants.add(node.id)
        kinds = [self.of(ref) for ref in inputs]
        for slot in range(len(node.signature.output_dtypes)):
            ref = TensorRef(node.id, slot)
            found = self._dependence(node, ref, kinds)
            if found is Dependence.NONE:
                continue
            self._found[ref] = found
            if found is Dependence.STATISTIC:
                cause = next((self._reasons[source] for source in inputs if source in self._reasons), node)
                self._reasons[ref] = cause
        mixed = (Dependence.MEAN, Dependence.SUM, Dependence.STATISTIC)
        rows = self.of(TensorRef(node.id, 0)) in (Dependence.ROWS, Dependence.FILLED)
        if rows and (any(kind in mixed for kind in kinds) or self._graph.full_attrs(node).get("is_training") is True):
            self.local_statistics.append(node)

    def _refuse_mixed_examples(self, node: Node) -> None:
        """Raise UsageError for a node that mixes elements along the dimension of the batch.

        In a part, the shapes would be valid, but examples would get values of other examples.
        """
        mixed = mixing_of(node.op)
        axis = None if mixed is None else self._shapes.axis(next(node.inputs))
        if mixed is None or axis is None:
            return
        context = self._shapes.full.context(node)
        dims, rank = mixed(context), len(context.shapes[0] or ())
        if dims is None or axis in [dim % rank for dim in dims]:
            raise UsageError(
                f"examples depend on each other: got {node.name} ({node.op}) along the dimension of the batch, "
                "expected the same result for each example with or without the others"
            )

    def _dependence(self, node: Node, ref: TensorRef, kinds: Sequence[Dependence]) -> Dependence:
        dependent = [kind for kind in kinds if kind is not Dependence.NONE]
        if self._shapes.axis(ref) is not None:
            holds_data = node.signature.is_stateful or node.id in self._shapes.split
            is_filled = has_trait(node.op, Trait.FILLS) or (not holds_data and _DATALESS.issuperset(kinds))
            return Dependence.FILLED if is_filled else Dependence.ROWS
        if not dependent:
            return Dependence.NONE
        if node.op in SHAPE_OPS or all(kind is Dependence.SIZE for kind in dependent):
            return Dependence.SIZE
        if Dependence.ROWS in dependent or Dependence.FILLED in dependent:
            return self._reduced(node, dependent)
        first, alike = dependent[0], len({*dependent}) == 1
        if Dependence.STATISTIC in dependent:
            return Dependence.STATISTIC
        if has_trait(node.op, Trait.DIVIDES):
            return self._divided(node, *kinds)
        if has_trait(node.op, Trait.MULTIPLIES) and len(dependent) == 1:
            return self._scaled(node, kinds.index(Dependence.NONE), first)
        if has_trait(node.op, Trait.ADDS) and alike and (len(dependent) == len(kinds) or first is Dependence.MEAN):
            return first
        if not alike or not any(has_trait(node.op, trait) for trait in _LINEAR):
            return Dependence.STATISTIC
        has_own_terms = first is Dependence.SUM and any(kinds[i] is Dependence.NONE for i in moved_inputs(node))
        return Dependence.STATISTIC if has_own_terms else first

    @staticmethod
    def _reduced(node: Node, dependent: Sequence[Dependence]) -> Dependence:
        """Return the dependence of a tensor without a batch dimension whose inputs have one."""
        is_filled = all(kind in (Dependence.FILLED, Dependence.SIZE) for kind in dependent)
        if has_trait(node.op, Trait.AVERAGES):
            return Dependence.SIZE if is_filled else Dependence.MEAN
        if has_trait(node.op, Trait.SUMS):
            return Dependence.SIZE if is_filled else Dependence.SUM
        return Dependence.STATISTIC

    def _divided(self, node: Node, dividend: Dependence, divisor: Dependence) -> Dependence:
        if divisor is Dependence.NONE:
            return self._scaled(node, 1, dividend)
        if divisor is Dependence.SIZE and dividend is Dependence.SUM:
            return Dependence.MEAN
        return Dependence.STATISTIC

    def _scaled(self, node: Node, position: int, scaled: Dependence) -> Dependence:
        """Return the dependence of a product or quotient with a number that does not depend on the batch.

        A sum counts as a mean, and the number is adapted to a part, if the number is constant and no other forward node reads
        it.
        """
        ref = self._first_ref([*node.inputs][position])
        if scaled is not Dependence.SUM or ref.node not in self._constants or self._forward_reads[ref] > 1:
            return scaled
        self.factors[ref] = 1.0 / self._shapes.parts if has_trait(node.op, Trait.DIVIDES) else float(self._shapes.parts)
        return Dependence.MEAN
