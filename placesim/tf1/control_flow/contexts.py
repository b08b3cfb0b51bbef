"""Control flow contexts: the common part of branches of conditionals and bodies of loops.

For each new op inside a context, the graph calls the context's `AddOp`, which replaces outer inputs of the op by inner tensors.
The Switch or Enter of an inner tensor is made after the op that needs the tensor, and follows this op in the GraphDef.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from placesim.ops.categories import CALLS
from placesim.tf1.control_flow.switching import LOOP_ENTERS, LOOP_EXITS, SWITCHES
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor

PASSING = LOOP_ENTERS | SWITCHES
"""Ops that pass a tensor into a context; their inputs may come from any context."""


class ControlFlowContext:
    """A branch or a loop.

    `known` are its own tensors and those passed into it; `inside` maps outer tensors to inner ones.
    """

    def __init__(self) -> None:
        self.graph: Graph = get_default_graph()
        self.outer: ControlFlowContext | None = self.graph._control_flow_context
        self.known: set[Tensor] = set()
        self.inside: dict[Tensor, Tensor] = {}
        # a stack, because gradients enter the contexts of forward ops again
        self._saved: list[ControlFlowContext | None] = []

    # --- entering and leaving ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make this the graph's current context."""
        self._saved.append(self.graph._control_flow_context)
        self.graph._control_flow_context = self

    def leave(self) -> None:
        """Restore the previous context."""
        self.graph._control_flow_context = self._saved.pop()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the graph's current context within a `with` block."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def leave_results(self, results: list[Tensor]) -> None:
        """Add the tensors that leave this context to the known ones of the outer context."""
        if self.outer is not None:
            self.outer.known.update(results)

    @property
    def while_context(self) -> LoopContext | None:
        """Innermost enclosing loop."""
        return None if self.outer is None else self.outer.while_context

    @property
    def pivot(self) -> Tensor | None:
        """Tensor that is available whenever this context runs."""
        raise NotImplementedError

    # --- ops inside ------------------------------------------------------------------------------------------------

    def add_value(self, tensor: Tensor) -> Tensor:
        """Return the inner tensor that replaces a tensor."""
        raise NotImplementedError

    def AddOp(self, op: Operation) -> None:  # noqa: N802 - TensorFlow's name
        """Add a new op to this context, in the op's name scope."""
        builder = self.graph.builder
        saved = builder.prefix
        # `tf.constant` and calls of a `tf.function` open no scope for their op
        if op.type not in ("Const", *CALLS):
            builder.prefix = op.name + "/"
        try:
            self.take(op)
        finally:
            builder.prefix = saved

    def take(self, op: Operation) -> None:
        """Add an op to this context, and forbid feeding and fetching it."""
        self._take(op)
        # only the Exit of an outermost loop has one value for a whole step
        if self.outer is not None or op.type not in LOOP_EXITS:
            self.graph.prevent_fetching(op)
            for tensor in op.outputs:
                self.graph.prevent_feeding(tensor)
        if self.outer is not None:
            self.outer.add_inner_op(op)

    def _take(self, op: Operation) -> None:
        """Replace an op's inputs and control inputs by inner ones."""
        raise NotImplementedError

    def add_inner_op(self, op: Operation) -> None:
        """Called for each op added to a context inside this one."""
        if self.outer is not None:
            self.outer.add_inner_op(op)

    def _replace_inputs(self, op: Operation) -> None:
        for index, tensor in enumerate(op.inputs):
            found = self.add_value(tensor)
            if found is not tensor:
                op._update_input(index, found)

    def _drop_outer_controls(self, op: Operation) -> tuple[list[Operation], list[Operation]]:
        """Remove an op's control inputs from outside the loop.  Returns the kept and the removed ones."""
        # a branch outside any loop runs once, so its control inputs may come from anywhere
        loop = self.while_context
        controls = op.control_inputs
        if loop is None:
            return controls, []
        inner: list[Operation] = []
        outer: list[Operation] = []
        for control in controls:
            (inner if while_context_of(control) is loop else outer).append(control)
        if outer:
            op._remove_all_control_inputs()
            op._add_control_inputs(inner)
        return inner, outer

    def summaries(self) -> list[Any]:
        """The summaries of `tf.summary` that were made so far."""
        return self.graph.get_collection(GraphKeys._SUMMARY_COLLECTION)

    def take_summaries(self, first: int) -> list[Any]:
        """Remove and return the summaries from index `first` on. The context's results must wait for these summaries."""
        added = self.summaries()[first:]
        if added:
            del self.graph.get_collection_ref(GraphKeys._SUMMARY_COLLECTION)[first:]
        return added

    # --- name in a MetaGraph ----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        raise NotImplementedError


class LoopContext(ControlFlowContext):
    """A loop, as the contexts inside it and its gradient see it."""

    grad_state: LoopGradient | None


class LoopGradient(Protocol):
    """The gradient of a loop: a second loop, which reads tensors of the forward loop."""

    @property
    def forward_context(self) -> LoopContext:
        """Forward loop of the gradient."""

    def real_value(self, value: Tensor) -> Tensor:
        """Tensor of the gradient loop for a tensor of the forward loop."""


def output_context(op: Operation) -> ControlFlowContext | None:
    """The context of an op's outputs: the op's own context, or for a loop's Exit, the context around the loop."""
    # an Exit belongs to its loop, but its output is already outside it
    context: ControlFlowContext | None = op._control_flow_context
    return context.outer if context is not None and op.type in LOOP_EXITS else context


def loop_of(context: ControlFlowContext | None) -> LoopContext | None:
    """The innermost loop around a context, or the loop itself; None outside of loops."""
    return None if context is None else context.while_context


def while_context_of(op: Operation) -> LoopContext | None:
    """The innermost loop of an op's outputs."""
    return loop_of(output_context(op))


def is_in(op: Operation, context: ControlFlowContext) -> bool:
    """Whether an op was made in a context or in one inside it."""
    return _encloses(context, op._control_flow_context)


def _encloses(outer: ControlFlowContext, context: ControlFlowContext | None) -> bool:
    """Whether a context is `outer` itself or inside it."""
    while context is not None and context is not outer:
        context = context.outer
    return context is outer


def outside(graph: Graph) -> AbstractContextManager[None]:
    """Python context whose ops have no control inputs and are in no control flow context."""
    return graph.control_dependencies(None)


def check_inputs(op: Operation) -> None:
    """Raise ValueError if an op outside a loop reads a tensor from inside it."""
    context: ControlFlowContext | None = op._control_flow_context
    loop = loop_of(context)
    for tensor in op.inputs:
        own = output_context(tensor.op)
        inner = loop_of(own)
        # an op may read tensors of the loops around it, but not of a loop that has ended
        if inner is None or own is context or op.type in PASSING or _encloses(inner, loop):
            continue
        if inner.grad_state is not None or (loop is not None and loop.grad_state is not None):
            continue  # a gradient loop and its forward loop read recorded values of each other
        is_outside = f"'{tensor.op.name}' is in a while loop"
        why = is_outside if loop is None else "they are in different while loops"
        raise ValueError(f"Cannot use '{tensor.op.name}' as input to '{op.name}' because {why}. See info log for more details.")
