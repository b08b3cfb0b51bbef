"""Rewrites with which a training graph that runs out of memory would fit: micro-batches, replicas, recomputation."""

from __future__ import annotations

import shlex
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from placesim.core.errors import PlacesimError
from placesim.inspection.memory_requirements import STRATEGY, MemoryEdit
from placesim.machine.inventory import build_devices
from placesim.machine.options import option_words
from placesim.planning.graphs.plan_comparison import is_gpu
from placesim.planning.strategies.recomputation import AUTO
from placesim.planning.strategies.rewriting import Strategy
from placesim.planning.strategies.strategy_comparison import device_counts
from placesim.studies.dry_run import search_dry_run, total_peak, with_few_repeats
from placesim.studies.rewrite_study import (
    FIRST_COUNTS,
    find_batch_size,
    search_segments,
    study_rewrite,
)
from placesim.studies.simulation.settings import build_steps, with_machine

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions

MAX_ACCUMULATED = 64
"""Maximum number of micro-batches that is tried."""
MAX_TRIALS = 6
"""Maximum number of trials of one kind of rewrite."""
MAX_NODES, MAX_WORK = 8_000, 8
"""Maximum number of nodes in all dry runs together, also as a multiple of the graph's; the larger one counts.

A rewrite that would exceed it is not tried.
"""
_REPEATED = ("cpu", "gpu", "gpu_model", "soft_placement", "clear_devices", "fetch")
"""Options that the command repeats."""


def rewrite_edits(
    loaded: LoadedGraph,
    options: SimulationOptions,
    name: str,
    device: str,
    fitting_batch: int | None,
    recomputation: MemoryEdit | None,
) -> list[MemoryEdit | None]:
    """Return the rewrites of a training graph that fit, each checked by a dry run with the devices' limits.

    They are the fewest micro-batches, the fewest GPUs with replicas, and recomputation, whose estimate `recomputation` stays if
    no rewrite fits. `device` ran out of memory. No batch larger than `fitting_batch` fits, if it is given. Rewrites that the
    graph does not support are left out.
    """
    try:
        trials = _Trials(loaded, options, name, device)
    except PlacesimError:
        return [recomputation]
    found = [trials.accumulated(fitting_batch), trials.replicated()]
    return [*found, recomputation and (trials.recomputed() or recomputation)]


class _Trials:
    """Dry runs of rewritten graphs, up to a number of nodes. Raises UsageError for a graph that does not train."""

    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, name: str, device: str) -> None:
        assert loaded.file is not None
        file = with_machine(loaded.file, options)
        file = replace(file, steps=build_steps(loaded, file, options))
        self._loaded, self._options, self._name, self._device = loaded, options, name, device
        self._batch = find_batch_size(loaded, file, options) or 0
        self._gpus = sum(is_gpu(device.name) for device in build_devices(file.inventory or ()))
        self._nodes = len(file.graph)
        self._left = max(MAX_NODES, MAX_WORK * self._nodes)

    def accumulated(self, fitting_batch: int | None) -> MemoryEdit | None:
        """Return the fewest micro-batches that fit, found by increasing steps and bisection among the divisors of the batch."""
        least = max(2, ceil(self._batch / (fitting_batch or self._batch or 1)))
        counts = [count for count in range(least, MAX_ACCUMULATED + 1) if self._batch and self._batch % count == 0]
        best: MemoryEdit | None = None
        low, high = -1, len(counts)
        for _ in range(MAX_TRIALS):
            if high - low <= 1:
                break
            place = (low + high) // 2 if best is not None else min(low + max(1, low + 1), high - 1)
            found = self._try(Strategy(accumulate=counts[place]), counts[place])
            if found is None:
                low = place
            else:
                high, best = place, found
        return best

    def replicated(self) -> MemoryEdit | None:
        """Return the replicas on the fewest GPUs that fit."""
        counts = [count for count in device_counts(self._gpus) if count > 1 and self._batch and self._batch % count == 0]
        return next(filter(None, (self._try(Strategy(replicas=count), count) for count in counts[:MAX_TRIALS])), None)

    def recomputed(self) -> MemoryEdit | None:
        """Return recomputation in the number of segments with the least peak."""
        return self._try(Strategy(recompute=(AUTO,)), len(FIRST_COUNTS))

    def _try(self, strategy: Strategy, work: int) -> MemoryEdit | None:
        """Return a rewrite that fits; None if it is refused, does not fit, or would have too many nodes.

        `work` is about the number of nodes in its dry runs, as a multiple of the graph's.
        """
        if work * self._nodes > self._left:
            return None
        self._left -= work * self._nodes
        search = search_segments if strategy.recompute else study_rewrite
        try:
            found = search(self._loaded, self._options, self._name, strategy)
            steps = with_few_repeats(found.file.steps or ()) or None
            rewritten = replace(self._loaded, file=replace(found.file, steps=steps), text=None)
            outcome = search_dry_run(rewritten, replace(self._options, fetch=None), total_peak).outcome
        except PlacesimError:
            return None
        if outcome.error is not None:
            return None
        peak = next((usage.peak for usage in outcome.memory if usage.device == self._device), 0)
        return MemoryEdit(STRATEGY, self._command(found.strategy), peak, fits=True)

    def _command(self, strategy: Strategy) -> str:
        """Return the command that rewrites the graph."""
        given = {name: getattr(self._options, name) for name in _REPEATED}
        own = {name: getattr(strategy, name) for name in ("replicas", "accumulate", "recompute")}
        changed = {name: value for name, value in own.items() if value not in (1, ())}
        name = "-" if self._name == "<stdin>" else self._name
        return shlex.join(["placesim", "parallelize", name, *option_words(given | changed)])
