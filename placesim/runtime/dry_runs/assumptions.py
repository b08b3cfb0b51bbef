"""Assumptions of a dry run: iteration counts of loops, branches, and sizes that are unknown.

Assumptions that a dry run uses are recorded. Reports list them, and the search for the costlier branches
(`placesim/studies/dry_run.py`) reads the chosen branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from placesim.core.errors import UsageError
from placesim.core.styled_text import list_words
from placesim.ops.kernels.shapes import Dims

ITERATIONS = 1
"""Assumed number of iterations of a loop with an unknown trip count."""
TWO_WAYS = 2
MAX_NAMED = 5
"""Maximum number of names in a sentence."""
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

    The user gives `iterations` by a loop's frame or node, `numbers` of any kind by node, and the `dimension` that stands for
    all other unknown dimensions. `branches` are by choice. If the run `is_free`, it makes further assumptions; else other
    unknown decisions are errors. With `prefers_guesses`, an op's guess comes before `dimension`.

    The dry run records:

    - `loops`, `chosen`: iteration counts of loops, and the branches taken, in order of occurrence.
    - `used`: a sentence about the effect of each used number, by its name in `numbers`.
    - `sizes`: guessed numbers of elements of outputs, by node.
    - `opened`: tensors with an assumed dimension, by graph, node and output.
    - `causes`: for these tensors, and for those whose shapes follow from them, the feeds whose values would have determined the
      shape, or `UNTOLD` if no feed would.
    - `initialized`: names of variables without a value that are assumed to have one.
    - `iterated`: names of nodes whose iterators have no dataset, and are assumed to give elements.
    - `failed`: the choices of which another branch ends in an error, each with a text that names this branch and the error.
    - `notes`: further sentences for reports.
    """

    is_free: bool = False
    iterations: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    dimension: int | None = None
    prefers_guesses: bool = False
    branches: Mapping[BranchChoice, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    chosen: dict[BranchChoice, int] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, dict[int, None]] = field(default_factory=dict)
    opened: dict[tuple[int, str, int], OpenTensor] = field(default_factory=dict)
    causes: dict[tuple[int, str, int], frozenset[str]] = field(default_factory=dict)
    initialized: list[str] = field(default_factory=list)
    iterated: dict[str, None] = field(default_factory=dict)
    failed: dict[BranchChoice, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def tells(self, loop: str) -> bool:
        """Whether the number of iterations of a loop may be assumed."""
        return self.is_free or self._is_given(loop)

    def _is_given(self, loop: str) -> bool:
        return find_loop(chain(self.iterations, self.numbers), loop) is not None

    def goes_on(self, loop: str, number: int) -> bool:
        """Whether a loop with an unknown condition runs iteration `number`, counted from 0."""
        return number < self.iterations_of(loop)

    def iterations_of(self, loop: str) -> int:
        """Return the assumed number of iterations of a loop with an unknown trip count."""
        found = self.loops.get(loop)
        if found is None:
            name = find_loop(self.iterations, loop)
            found = ITERATIONS if name is None else self.iterations[name]
            if name is None and (name := find_loop(self.numbers, loop)) is not None:
                found = self.numbers[name]
                self.used[name] = f"loop {loop} runs {found} times, as given"
            self.loops[loop] = found
        return found

    def branch(self, node: str, count: int) -> int:
        """Return which of `count` branches is taken if the output of the deciding `node` is unknown."""
        choice = BranchChoice(node, count)
        name = find_loop(self.numbers, node)
        if name is not None:
            # a number that is too large takes the last branch, as in TensorFlow
            given = min(self.numbers[name], count - 1)
            self.used[name] = f"{node} is unknown: branch {choice.word(given)} is taken, as given"
            return given
        found = self.chosen.get(choice)
        if found is None:
            # of two branches, the true one
            found = self.chosen[choice] = self.branches.get(choice, 1 if count == TWO_WAYS else 0)
        return found

    def settled(self, graph: int, slot: int, tensor: OpenTensor, guess: int | None = None, most: int | None = None) -> Dims:
        """Return a tensor's shape with the assumed size for unknown dimensions; unchanged if none is assumed.

        The size is the user's number for the node, the assumed `dimension`, or the op's `guess`. Raises UsageError if the
        user's number is larger than `most`.
        """
        if tensor.dims is None:
            return None
        name, size = find_loop(self.numbers, tensor.node), self.dimension
        if name is not None:
            size = self.numbers[name]
            if most is not None and size > most:
                raise UsageError(
                    f"impossible size of {tensor.node} in --assume: got {size}, expected at most {most}, the size of its input"
                )
            self.used[name] = f"{tensor.node} is assumed to have {_elements(size)}, as given"
        elif guess is not None and self.is_free and (size is None or self.prefers_guesses):
            size = guess
            self.sizes.setdefault(tensor.node, {})[size] = None
        elif size is None:
            return tensor.dims
        else:
            self.opened[graph, tensor.node, slot] = tensor
        return tuple(size if dim < 0 else dim for dim in tensor.dims)

    # --- reports

    def unsaid_loops(self) -> list[str]:
        """Return the loops that are assumed to run once, because the user gave no number of iterations."""
        return [loop for loop in self.loops if not self._is_given(loop)]

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
        said += self.used.values()
        said += [
            f"the assumption for {name} is ignored: nothing about it is unknown, or it does not run"
            for name in self.numbers
            if name not in self.used
        ]
        said += [
            f"{node} is assumed to have {' or '.join(map(_elements, sizes))}: set it with `--assume {node}=N`"
            for node, sizes in self.sizes.items()
        ]
        for choice, taken in self.chosen.items():
            why = self.failed.get(choice, f"the slowest of {choice.ways}")
            said.append(f"{choice.node} is unknown: branch {choice.word(taken)} is assumed, {why}")
        if self.opened:
            tensors = "1 tensor" if len(self.opened) == 1 else f"{len(self.opened)} tensors"
            said.append(f"unknown dimensions of {tensors} are assumed to be {self.dimension}")
        if self.initialized:
            said.append(
                f"no step initializes {list_words(self.initialized, MAX_NAMED)}: assumed to be restored from a checkpoint"
            )
        if self.iterated:
            nodes = list_words(list(self.iterated), MAX_NAMED)
            said.append(f"no step initializes the iterator of {nodes}: assumed to give elements of the declared shapes")
        return (*said, *self.notes)


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def find_loop(names: Iterable[str], loop: str) -> str | None:
    """Return the first of `names` that refers to a loop or another node; None if there is none."""
    return next((name for name in names if is_loop_name(name, loop)), None)


def is_loop_name(name: str, loop: str) -> bool:
    """Whether a name refers to a loop or node: it is the frame or node, the frame's scope, or the last parts of either."""
    return any(full == name or full.endswith("/" + name) for full in (loop, loop.removesuffix(CONTEXT)))
