"""Bytes of transfers that static shapes do not determine, from a dry run with the given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from placesim.graph.graph import split_tensor_name
from placesim.ops.categories import RECEIVES
from placesim.prediction.node_shapes import num_bytes
from placesim.prediction.step_tasks import transfer_ends
from placesim.runtime.dry_runs.dry_run_feeds import check_batch
from placesim.runtime.partitioning.pruning import feed_name
from placesim.studies.dry_run import DryRun, search_dry_run

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.partitioning.prepared_step import PreparedStep
    from placesim.runtime.recording.recorder import Execution
    from placesim.runtime.sessions.outcome import TransferRow

_SIZELESS = ("string", "variant")
"""Types whose elements have no fixed size."""


def size_transfers(
    transfers: Sequence[TransferRow], prepared: Sequence[PreparedStep], loaded: LoadedGraph, options: SimulationOptions
) -> tuple[TransferRow, ...]:
    """Return the transfers of the prepared steps, with the bytes that a dry run finds; without open sizes, unchanged.

    If a transfer is repeated, its largest size is taken. Raises an error if the dry run can't finish.
    """
    if not any(row.is_open for row in transfers):
        return tuple(transfers)
    if options.batch is not None and loaded.file is not None:
        check_batch(loaded.file.graph)
    walked = search_dry_run(loaded, replace(options, no_memory_limit=True), _received_bytes)
    if walked.outcome.error is not None:
        raise walked.outcome.error
    sizes = [_received(walked, step) for step in walked.outcome.prepared]
    counts = [len(step.partitions.transfers) for step in prepared]
    by_step = chain.from_iterable([found] * count for found, count in zip(sizes, counts, strict=True))
    return tuple(
        row._replace(bytes=found.get(_tensor(row.tensor))) if row.is_open else row
        for row, found in zip(transfers, by_step, strict=True)
    )


def _received_bytes(walked: DryRun) -> float:
    return float(sum(num_bytes(run.outputs) for step in walked.recorder.steps for run in step if _is_receive(run)))


def _is_receive(run: Execution) -> bool:
    return run.site is not None and run.site.instruction.node.op in RECEIVES


def _received(walked: DryRun, prepared: PreparedStep) -> Mapping[str, int | None]:
    """Return the largest size of each copied tensor in the runs of a step; None for strings.

    Nodes that receive have other names than without a dry run, which feeds all placeholders.
    """
    found: dict[str, int | None] = {}
    tensors = {(copy.src, copy.dst, copy.recv): _tensor(copy.tensor) for copy in prepared.partitions.transfers}
    recorded = {id(runs): runs for runs in walked.recorder.steps}.values()  # repetitions share their runs
    for step, runs in zip(walked.recorder.prepared, recorded, strict=True):
        for run in runs if step is prepared else ():
            if run.site is None or not _is_receive(run):
                continue
            sender, receiver, _ = transfer_ends(run)
            tensor = tensors.get((sender, receiver, run.site.name))
            if tensor is not None:
                size, has_size = num_bytes(run.outputs), not any(dtype.name in _SIZELESS for _, dtype in run.outputs)
                found[tensor] = max(found.get(tensor) or 0, size) if has_size else None
    return found


def _tensor(name: str) -> str:
    """Return the name of a tensor in the graph as written, for a fed tensor too."""
    node, slot = split_tensor_name(name)
    return f"{feed_name(node)}:{slot}"
