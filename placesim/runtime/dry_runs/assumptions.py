"""Assumptions of a dry run for unknown values: iteration counts of loops, branches, unknown dimensions.

Questions and answers are both recorded. Reports list the assumptions, and the search for the costlier branches
(`placesim/studies/dry_run.py`) reads the choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placesim.ops.kernels.shapes import Dims

ITERATIONS = 1
"""Assumed iterations of a loop with an unknown trip count."""
TWO_WAYS = 2
CONTEXT = "/while_context"
"""Suffix that TensorFlow's Python appends to a loop's scope to name its frame."""


class BranchChoice(NamedTuple):
    """A value that selects a branch: its node, and the number of branches."""

    node: str
    ways: int

    def word(self, branch: int) -> str:
        """Return the name of a branch."""
        return ("false", "true")[branch] if self.ways == TWO_WAYS else str(branch)


class OpenTensor(NamedTuple):
    """A tensor with an unknown shape; `is_fed` marks a placeholder."""

    node: str
    dims: Dims
    is_fed: bool = False


@dataclass(slots=True)
class Assumptions:
    """The assumptions of one dry run. Unless `is_free`, only given ones are used, and other unknown decisions are errors.

    Given are `iterations` by a loop's frame or node, `dimension` for unknown dimensions, and `branches` by choice.

    Recorded are `loops` with their iteration counts, and `chosen` with the branches taken, in order of occurrence. `opened` has
    the tensors with an assumed dimension, by graph, node and output. `causes` has the feeds whose values would have determined
    these tensors and all that follow from them, or `UNTOLD` if none would. `failed` has choices with a branch that ends in an
    error, and `notes` further remarks.
    """

    is_free: bool = False
    iterations: Mapping[str, int] = field(default_factory=dict)
    dimension: int | None = None
    branches: Mapping[BranchChoice, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    chosen: dict[BranchChoice, int] = field(default_factory=dict)
    opened: dict[tuple[int, str, int], OpenTensor] = field(default_factory=dict)
    causes: dict[tuple[int, str, int], frozenset[str]] = field(default_factory=dict)
    failed: dict[BranchChoice, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def tells(self, loop: str) -> bool:
        """Whether an iteration count may be assumed for a loop."""
        return self.is_free or find_loop(self.iterations, loop) is not None

    def goes_on(self, loop: str, number: int) -> bool:
        """Whether a loop with an unknown condition runs iteration `number`, from 0 on."""
        return number < self.iterations_of(loop)

    def iterations_of(self, loop: str) -> int:
        """Return the assumed iterations of a loop with an unknown trip count."""
        found = self.loops.get(loop)
        if found is None:
            name = find_loop(self.iterations, loop)
            found = self.loops[loop] = ITERATIONS if name is None else self.iterations[name]
        return found

    def branch(self, node: str, count: int) -> int:
        """Return the branch to take, of `count`, if the deciding node's value is unknown."""
        choice = BranchChoice(node, count)
        found = self.chosen.get(choice)
        if found is None:
            # of two the true one
            found = self.chosen[choice] = self.branches.get(choice, 1 if count == TWO_WAYS else 0)
        return found

    def settled(self, graph: int, slot: int, tensor: OpenTensor) -> Dims:
        """Return a tensor's shape with assumed sizes for unknown dimensions, or unchanged if none are assumed."""
        if self.dimension is None or tensor.dims is None:
            return tensor.dims
        self.opened[graph, tensor.node, slot] = tensor
        return tuple(self.dimension if dim < 0 else dim for dim in tensor.dims)

    # --- what is said of it

    def unsaid_loops(self) -> list[str]:
        """Return the loops assumed to run once because their iteration count is unknown."""
        return [loop for loop in self.loops if find_loop(self.iterations, loop) is None]

    def unused_iterations(self) -> list[str]:
        """Return the names of loops with a given iteration count that was never needed."""
        used = {find_loop(self.iterations, loop) for loop in self.loops}
        return [name for name in self.iterations if name not in used]

    def warnings(self) -> list[str]:
        """Return warnings about assumptions that are probably wrong."""
        return [
            f"loop {loop} is assumed to run once, as its trip count is unknown: set it with `--iterations {loop}=N`"
            for loop in self.unsaid_loops()
        ]

    def sentences(self) -> tuple[str, ...]:
        """Return sentences about the assumptions made, and the given ones that had no effect."""
        said = [
            f"loop {loop} is assumed to run once: trip count unknown, set it with `--iterations {loop}=N`"
            for loop in self.unsaid_loops()
        ]
        said += [
            f"loop {loop} runs {times} times, as given"
            for loop, times in self.loops.items()
            if find_loop(self.iterations, loop)
        ]
        said += [
            f"the iteration count for {name} is ignored: its condition is known, or it does not run"
            for name in self.unused_iterations()
        ]
        for choice, taken in self.chosen.items():
            why = self.failed.get(choice, f"the slowest of {choice.ways}")
            said.append(f"{choice.node} is unknown: branch {choice.word(taken)} is assumed, {why}")
        if self.opened:
            tensors = "1 tensor" if len(self.opened) == 1 else f"{len(self.opened)} tensors"
            said.append(f"unknown dimensions of {tensors} are assumed to be {self.dimension}")
        return (*said, *self.notes)


def find_loop(names: Mapping[str, object], loop: str) -> str | None:
    """Return the given name that refers to a loop, or None.

    It is the loop's frame, the frame's scope, or the last part of either.
    """
    return next((name for name in names if is_loop_name(name, loop)), None)


def is_loop_name(name: str, loop: str) -> bool:
    """Whether a name may refer to a loop."""
    return any(full == name or full.endswith("/" + name) for full in (loop, loop.removesuffix(CONTEXT)))
