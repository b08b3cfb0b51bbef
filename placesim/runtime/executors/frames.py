"""Frames and iterations of loops: pass outputs to the nodes that read them, and find the nodes that are ready.

A node is ready when all its inputs have arrived; a `Merge` is ready when its first live input has arrived. Frames and
iterations are created when a value enters them, and deleted when no node in them is left to run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from placesim.runtime.executors.dataflow_nodes import FlowNode, Wiring


class _DeadTensor:
    """A tensor in a branch that is not taken."""

    def __repr__(self) -> str:
        return "<dead>"

    def __reduce__(self) -> str:
        return "DEAD"  # unpickling finds the one object of the process


DEAD = _DeadTensor()


class FrameRun:
    """One run of a loop, or the whole step. If one run is on several devices, its frames there have equal `identity`."""

    __slots__ = ("constants", "exited", "identity", "iterations", "name", "parent", "pending_enters", "wiring")

    def __init__(self, wiring: Wiring, name: str, parent: Iteration | None) -> None:
        self.wiring = wiring
        self.name = name
        self.parent = parent
        self.identity: tuple[Any, ...] = () if parent is None else (*parent.frame.identity, parent.number, name)
        self.iterations: dict[int, Iteration] = {0: Iteration(self, 0)}
        self.constants: list[tuple[FlowNode, Any]] = []
        self.exited: set[FlowNode] = set()
        # a frame may not end before all its Enters have passed a value: the first iteration could end earlier
        self.pending_enters = wiring.enters[name]


class Iteration:
    """One iteration of a frame.

    `arrived` has the visits of nodes that still wait for inputs, by node number; for a `Merge` that has run, it has None.
    `outstanding` is the number of nodes that are ready or running. `children` are the frames that were entered here.
    """

    __slots__ = ("arrived", "children", "frame", "number", "outstanding")

    def __init__(self, frame: FrameRun, number: int) -> None:
        self.frame = frame
        self.number = number
        self.arrived: dict[int, Visit | None] = {}
        self.outstanding = 0
        self.children: dict[str, FrameRun] = {}


class Visit:
    """Execution of a node in one iteration: the inputs that have arrived, and the number `waits` of inputs that are missing.

    `dead` counts dead inputs, and becomes true or false when the node is ready. One dead input makes a node dead, but a `Merge`
    is dead only if all its inputs are dead, and a `ControlTrigger` never.
    """

    __slots__ = ("dead", "iteration", "node", "values", "waits")

    def __init__(self, node: FlowNode, iteration: Iteration) -> None:
        self.node = node
        self.iteration = iteration
        self.values: list[Any] = [None] * node.input_count
        self.waits = node.waits
        self.dead = 0

    @property
    def is_taken(self) -> bool:
        """Whether a `Merge` has received a live input."""
        return self.values[0] is not None


class Propagation:
    """Passes outputs to the nodes that read them, and collects the nodes that are ready."""

    def __init__(self) -> None:
        self.ready: deque[Visit] = deque()

    def _leave(self, node: FlowNode, iteration: Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        """Pass the outputs of an `Enter`, `Exit` or `NextIteration` to their readers in another frame or iteration."""
        if node.is_enter:
            child = self._child(iteration, node.frame_name)
            child.pending_enters -= 1
            target = next(iter(child.iterations.values()))
            if node.is_constant:
                child.constants.append((node, outputs[0]))
                # iterations may already have begun when a loop constant arrives
                for other in list(child.iterations.values()):
                    self._activate_readers(node, other, outputs, is_dead)
                self._clean_up(target)
                return
        # a dead NextIteration ends the loop, and a dead Exit is passed on when its frame ends
        elif is_dead:
            return
        elif node.is_exit:
            iteration.frame.exited.add(node)
            assert iteration.frame.parent is not None  # the programs' exits have frames
            target = iteration.frame.parent
        else:
            target = self._next_iteration(iteration)
        self._activate_readers(node, target, outputs, is_dead)
        self._clean_up(target)

    def _activate_readers(self, source: FlowNode, iteration: Iteration, outputs: Sequence[Any], is_dead: bool) -> None:
        if source.more_holders:
            self._hold(source, outputs)
        arrived = iteration.arrived
        for node, slot, position in source.readers:
            value = outputs[slot] if slot >= 0 else DEAD if is_dead else None
            if node.is_merge:
                self._arrive_at_merge(node, iteration, value, position, source.is_enter)
                continue
            visit = arrived.get(node.index)
            if visit is None:
                visit = Visit(node, iteration)
                if visit.waits > 1:
                    arrived[node.index] = visit
            elif visit.waits == 1:
                del arrived[node.index]
            visit.waits -= 1
            if value is DEAD:
                visit.dead = not node.is_always_live
            elif position >= 0:
                visit.values[position] = value
            if not visit.waits:
                iteration.outstanding += 1
                self.ready.append(visit)

    def _arrive_at_merge(self, node: FlowNode, iteration: Iteration, value: Any, position: int, is_enter: bool) -> None:
        """Take an input of a `Merge`: its first live input becomes its value, and it still waits for its control inputs."""
        visit = iteration.arrived.setdefault(node.index, Visit(node, iteration))
        is_live = position >= 0 and value is not DEAD
        if visit is None or (is_live and visit.is_taken):
            if is_live:
                self._drop(value)
            return
        if position < 0:
            visit.waits -= 1
        elif not is_live:
            # the other input of such a Merge comes from a NextIteration, which never arrives in a dead loop
            visit.dead += node.input_count if is_enter else 1
        else:
            visit.values = [value, self._position(node, position)]
        if not visit.waits and (visit.is_taken or visit.dead >= node.input_count):
            visit.dead = not visit.is_taken
            # a second live input comes too late: a Merge runs once in each iteration
            iteration.arrived[node.index] = None
            iteration.outstanding += 1
            self.ready.append(visit)

    # --- frames

    def _child(self, iteration: Iteration, name: str) -> FrameRun:
        child = iteration.children.get(name)
        if child is None:
            child = iteration.children[name] = FrameRun(iteration.frame.wiring, name, iteration)
        return child

    def _next_iteration(self, iteration: Iteration) -> Iteration:
        frame, following = iteration.frame, iteration.number + 1
        found = frame.iterations.get(following)
        if found is None:
            found = frame.iterations[following] = Iteration(frame, following)
            # loop constants are alive in each iteration, although they entered once
            for node, value in frame.constants:
                self._activate_readers(node, found, (value,), value is DEAD)
        return found

    def _clean_up(self, iteration: Iteration) -> None:
        """Delete a finished iteration. After a frame's last one, delete the frame too: exits that were not reached are dead."""
        frame = iteration.frame
        while frame.parent is not None and not iteration.outstanding and not iteration.children:
            first = next(iter(frame.iterations), None)
            # iterations end in order, since a later one may still get values from an earlier one
            if first != iteration.number or (frame.pending_enters and first == 0):
                return
            del frame.iterations[first]
            for visit in iteration.arrived.values():
                if visit is not None:
                    self._drop(*visit.values)
            if frame.iterations:
                iteration = next(iter(frame.iterations.values()))
                continue
            parent = frame.parent
            del parent.children[frame.name]
            self._drop(*(value for _, value in frame.constants))
            # nodes after a loop that did not run must learn that they are dead
            for node in frame.wiring.exits.get(frame.name, ()):
                if node not in frame.exited:
                    self._activate_readers(node, parent, [DEAD] * node.instruction.output_count, True)
            iteration, frame = parent, parent.frame

    # --- methods that a run with memory accounts overrides

    def _position(self, node: FlowNode, position: int) -> Any:
        """Return the second output of a `Merge`: the position of the input that it took."""
        return node.positions[position].value

    def _drop(self, *values: Any) -> None:
        """Release values that no node will read."""

    def _hold(self, source: FlowNode, outputs: Sequence[Any]) -> None:
        """Set the number of holders of each output that does not have exactly one."""
