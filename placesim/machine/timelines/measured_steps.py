"""Measured steps: the runs of nodes and the copies of tensors that a profiler recorded on a real machine."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

HOST, KERNEL, COPY, TRANSFER = "host", "kernel", "copy", "transfer"
"""Kinds of runs: a node on a host thread (which only launches kernels if the node is on a GPU), a GPU's kernel, a copy of a
tensor, and the start of a copy by a host thread."""


class MeasuredRun(NamedTuple):
    """A run of a node, or a copy of the tensor `name` or its start. Times are in seconds; `op` is empty if it is unknown."""

    name: str
    op: str
    kind: str
    start: float
    seconds: float


class MeasuredStep(NamedTuple):
    """A step and its runs in the order of their starts."""

    seconds: float
    runs: tuple[MeasuredRun, ...]


class Measurement(NamedTuple):
    """The steps in a file, and the format of the file for messages."""

    format: str
    steps: tuple[MeasuredStep, ...]


def single_step(runs: Iterable[MeasuredRun]) -> MeasuredStep:
    """Return the step that all these runs form. It takes the time from the first start to the last end."""
    ordered = tuple(sorted(runs, key=lambda run: run.start))
    end = max((run.start + run.seconds for run in ordered), default=0.0)
    return MeasuredStep(end - ordered[0].start if ordered else 0.0, ordered)


def divide_at_marks(runs: Iterable[MeasuredRun], marks: Sequence[tuple[float, float]]) -> tuple[MeasuredStep, ...]:
    """Return a step for each mark, which is the start and end of a step in seconds. Runs between steps are left out."""
    ordered = sorted(marks)
    starts = [start for start, _ in ordered]
    found: list[list[MeasuredRun]] = [[] for _ in ordered]
    for run in sorted(runs, key=lambda run: run.start):
        number = bisect_right(starts, run.start) - 1
        if number >= 0 and run.start < ordered[number][1]:
            found[number].append(run)
    return tuple(MeasuredStep(end - start, tuple(own)) for (start, end), own in zip(ordered, found, strict=True))


def divide_by_repetition(runs: Iterable[MeasuredRun]) -> tuple[MeasuredStep, ...]:
    """Divide runs without marks into steps: as many as most names have runs.

    A name with more runs, as in a loop, has the same number in each step.
    """
    by_name: dict[tuple[str, str, str], list[MeasuredRun]] = {}
    for run in sorted(runs, key=lambda run: run.start):
        by_name.setdefault(run[:3], []).append(run)
    if not by_name:
        return ()
    count = Counter(map(len, by_name.values())).most_common(1)[0][0]
    found: list[list[MeasuredRun]] = [[] for _ in range(count)]
    for own in by_name.values():
        for number, run in enumerate(own):
            found[number * count // len(own)].append(run)
    return tuple(map(single_step, filter(None, found)))
