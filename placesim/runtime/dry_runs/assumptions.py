"""Assumptions of a dry run: iteration counts of loops, branches, and dimensions that are unknown.

Assumptions that a dry run uses are recorded. Reports list them, and the search for the costlier branches
(`placesim/studies/dry_run.py`) reads the chosen branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placesim.ops.kernels.shapes import Dims

ITERATIONS = 1
"""Assumed number of iterations of a loop with an unknown trip count."""
TWO_WAYS = 2
CONTEXT = "/while_context"
"""Suffix that TensorFlow's Python appends to a loop's scope to name its frame."""


class BranchChoice(NamedTuple):
    """A choice between branches: the node whose output selects the branch, and the number of branches."""

    node: str
    ways: int

    def word(self, branch: int) -> str:
        """Return the name of a branch."""
        return ("false", "true")[branch] if self.ways == TWO_WAYS else str(branch)


class OpenTensor(NamedTuple):
    """A tensor with an unknown shape."""

    node: str
    dims: Dims


@dataclass(slots=True)
class Assumptions:
    """The assumptions of one dry run.

    The user gives three of them: `iterations` by name of a loop's frame or node, the `dimension` that stands for unknown ones,
    and `branches` by choice. If the run `is_free`, it makes further assumptions; else other unknown decisions are errors.

    The dry run records:

    - `loops`, `chosen`: iteration counts of loops, and the branches taken, in order of occurrence.
    - `opened`: tensors with an assumed dimension, by graph, node and output.
    - `causes`: for these tensors, and for those whose shapes follow from them, the feeds whose values would have determined the
      shape, or `UNTOLD` if no feed would.
    - `failed`: the choices of which another branch ends in an error, each with a text that names this branch and the error.
    - `notes`: further sentences for reports.
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
        """Whether the number of iterations of a loop may be assumed."""
        return self.is_free or find_loop(self.iterations, loop) is not None

    def goes_on(self, loop: str, number: int) -> bool:
        """Whether a loop with an unknown condition runs iteration `number`, counted from 0."""
        return number < self.iterations_of(loop)

    def iterations_of(self, loop: str) -> int:
        """Return the assumed number of iterations of a loop with an unknown trip count."""
        found = self.loops.get(loop)
        if found is None:
            name = find_loop(self.iterations, loop)
            found = self.loops[loop] = ITERATIONS if name is None else self.iterations[name]
        return found

    def branch(self, node: str, count: int) -> int:
        """Return which of `count` branches is taken if the output of the deciding `node` is unknown."""
        choice = BranchChoice(node, count)
        found = self.chosen.get(choice)
        if found is None:
            # of two branches, the true one
            found = self.chosen[choice] = self.branches.get(choice, 1 if count == TWO_WAYS else 0)
        return found

    def settled(self, graph: int, slot: int, tensor: OpenTensor) -> Dims:
        """Return a tensor's shape with the assumed `dimension` in place of unknown ones; unchanged if none is assumed."""
        if self.dimension is None or tensor.dims is None:
            return tensor.dims
        self.opened[graph, tensor.node, slot] = tensor
        return tuple(self.dimension if dim < 0 else dim for dim in tensor.dims)

    # --- reports

    def unsaid_loops(self) -> list[str]:
        """Return the loops that are assumed to run once, because the user gave no number of iterations."""
        return [loop for loop in self.loops if find_loop(self.iterations, loop) is None]

    def unused_iterations(self) -> list[str]:
        """Return the names of loops whose given iteration counts were not used."""
        used = {find_loop(self.iterations, loop) for loop in self.loops}
        return [name for name in self.iterations if name not in used]

    def warnings(self) -> list[str]:
        """Return warnings about assumptions that are probably wrong."""
        return [
            f"loop {loop} is assumed to run once, as its trip count is unknown: set it with `--iterations {loop}=N`"
            for loop in self.unsaid_loops()
        ]

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each assumption that was used, and for each given iteration count that was not used."""
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
    """Return the first of `names` that refers to a loop; None if there is none."""
    return next((name for name in names if is_loop_name(name, loop)), None)


def is_loop_name(name: str, loop: str) -> bool:
    """Whether a name refers to a loop: it is the loop's frame, the frame's scope, or the last parts of either."""
    return any(full == name or full.endswith("/" + name) for full in (loop, loop.removesuffix(CONTEXT)))
