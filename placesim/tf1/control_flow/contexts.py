"""Control flow contexts: construction common to the branches of conditionals and the bodies of loops.

A context is told of every op that is made inside it (`AddOp`), and puts in the place of each input from outside the tensor
that stands for it inside.  That tensor's own op is made afterwards, so it follows the op that needed it in the GraphDef.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from placesim.tf1.control_flow.switching import LOOP_ENTERS, LOOP_EXITS, SWITCHES
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor

PASSING = LOOP_ENTERS | SWITCHES
"""Ops that pass a tensor into a context: they may read it from anywhere."""


class ControlFlowContext:
    """A branch or a loop.

    `known` are its own tensors and those passed into it; `inside` maps outer tensors to inner ones.
    """

    def __init__(self) -> None:
        self.graph: Graph = get_default_graph()
        self.outer: ControlFlowContext | None = self.graph._control_flow_context
        self.known: set[Tensor] = set()
        self.inside: dict[Tensor, Tensor] = {}
        self._saved: list[ControlFlowContext | None] = []

    # --- being inside -----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """From now on ops are made inside."""
        self._saved.append(self.graph._control_flow_context)
        self.graph._control_flow_context = self

    def leave(self) -> None:
        """Restore the previous context."""
        self.graph._control_flow_context = self._saved.pop()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Ops of the block are made inside."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def leave_results(self, results: list[Tensor]) -> None:
        """Makes the tensors that come out known to the context around."""
        if self.outer is not None:
            self.outer.known.update(results)

    @property
    def while_context(self) -> LoopContext | None:
        """Innermost enclosing loop."""
        return None if self.outer is None else self.outer.while_context

    @property
    def pivot(self) -> Tensor | None:
        """Tensor that exists whenever this context runs."""
        raise NotImplementedError

    # --- what is made inside ----------------------------------------------------------------------------------------

    def add_value(self, tensor: Tensor) -> Tensor:
        """Stand-in for a tensor inside."""
        raise NotImplementedError

    def AddOp(self, op: Operation) -> None:  # noqa: N802 (as scripts and graphs know it)
        """Takes in an op that was just made."""
        builder = self.graph.builder
        saved = builder.prefix
        # what is made for an op's inputs stands in its scope; `tf.constant` alone opens none
        if op.type != "Const":
            builder.prefix = op.name + "/"
        try:
            self.take(op)
        finally:
            builder.prefix = saved

    def take(self, op: Operation) -> None:
        """Takes in an op, be it made by a context inside; nobody may feed or fetch it."""
        self._take(op)
        if self.outer is not None or op.type not in LOOP_EXITS:
            self.graph.prevent_fetching(op)
            for tensor in op.outputs:
                self.graph.prevent_feeding(tensor)
        if self.outer is not None:
            self.outer.add_inner_op(op)

    def _take(self, op: Operation) -> None:
        """Replaces inputs and control inputs of an op by those that it may have here."""
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
        """Takes control inputs from outside the loop away.  Gives those from inside, and those that were taken away."""
        loop = self.while_context
        controls = op.control_inputs
        if loop is None:
            return controls, []
        inner: list[Operation] = []
        outer: list[Operation] = []
        for control in controls:
            context = output_context(control)
            (inner if context is not None and context.while_context is loop else outer).append(control)
        if outer:
            op._remove_all_control_inputs()
            op._add_control_inputs(inner)
        return inner, outer

    # --- as a MetaGraph names it ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        raise NotImplementedError


class LoopContext(ControlFlowContext):
    """A loop, as used by the contexts inside it and by its gradient."""

    grad_state: LoopGradient | None


class LoopGradient(Protocol):
    """The gradient of a loop, which is a loop too and reads tensors of the forward one."""

    @property
    def forward_context(self) -> LoopContext:
        """Forward loop of the gradient."""

    def real_value(self, value: Tensor) -> Tensor:
        """The tensor that stands in the gradient's loop for one of the forward loop."""


def output_context(op: Operation) -> ControlFlowContext | None:
    """The context in which an op's outputs are: of a loop's Exit the one around the loop."""
    context: ControlFlowContext | None = op._control_flow_context
    return context.outer if context is not None and op.type in LOOP_EXITS else context


def is_in(op: Operation, context: ControlFlowContext) -> bool:
    """Whether an op was made in a context or in one inside it."""
    found: Any = op._control_flow_context
    while found is not None and found is not context:
        found = found.outer
    return found is context


@contextmanager
def outside(graph: Graph) -> Iterator[None]:
    """Ops of the block have no control inputs and are in no context."""
    with graph.control_dependencies(None):
        yield


def check_inputs(op: Operation) -> None:
    """Raise ValueError if an op outside a loop reads a tensor from inside it."""
    context: ControlFlowContext | None = op._control_flow_context
    loop = None if context is None else context.while_context
    for tensor in op.inputs:
        own = output_context(tensor.op)
        inner = None if own is None else own.while_context
        if inner is None or own is context or op.type in PASSING or _is_around(loop, inner):
            continue
        if inner.grad_state is not None or (loop is not None and loop.grad_state is not None):
            continue  # a gradient's loop and its forward loop read of each other what is recorded
        is_outside = f"'{tensor.op.name}' is in a while loop"
        why = is_outside if loop is None else "they are in different while loops"
        raise ValueError(f"Cannot use '{tensor.op.name}' as input to '{op.name}' because {why}. See info log for more details.")


def _is_around(loop: ControlFlowContext | None, inner: ControlFlowContext) -> bool:
    """Whether one loop encloses another."""
    found = loop
    while found is not None and found is not inner:
        found = found.outer
    return found is not None
