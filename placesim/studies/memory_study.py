"""Memory requirements of a graph from dry runs, and changes that would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from placesim.core.errors import InternalError, OpError, PlacesimError, ResourceExhaustedError
from placesim.inspection.memory_categories import MemoryCategories
from placesim.inspection.memory_requirements import DeviceMemory, MemoryEdit, MemoryStudy, SmallestGpu
from placesim.inspection.towers import find_towers, one_after_another
from placesim.machine.gpu_memory import gpu_memory_limit
from placesim.machine.gpu_models import GPU_MODELS
from placesim.machine.gpu_options import GpuEnvironment
from placesim.machine.memory.device_allocators import make_allocator
from placesim.prediction.workspaces import highest_peak, largest_workspaces, workspace_limit
from placesim.runtime.accounting.trace_replay import dump_text, replay
from placesim.runtime.accounting.usage import DeviceUsage
from placesim.runtime.dry_runs.assumptions import Assumptions
from placesim.runtime.dry_runs.dry_run_feeds import check_batch
from placesim.runtime.recording.recorder import ExecutionRecorder
from placesim.studies.dry_run import DryRun, check_execution_options, run_dry, search_dry_run, total_peak, with_few_repeats
from placesim.studies.memory_edits import MAX_EDITS, move_edit, recomputation_edit
from placesim.studies.simulation.simulation import SimulationStage, simulate

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.gpu_memory import GpuMemory
    from placesim.machine.inventory import Device
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.sessions.outcome import Outcome

MAX_BATCH = 1 << 40
"""Maximum batch size that is tried. A graph that fits with this batch is assumed to fit with every batch."""
MAX_UNIT = 64
"""Largest number tried as a common divisor of valid batch sizes, such as the number of towers."""

NEVER_USED = DeviceUsage(
    device="", allocator="", limit=None, peak=0, in_use=0, allocations=0, peak_node="", holders=(), curve=(), fragmentation=None
)


class MemoryStudyRequest(NamedTuple):
    """A request for a memory study.

    `finds_batch` asks for the largest batch that fits, and `dumps` for TensorFlow's memory dump at each peak.
    """

    is_executed: bool = False
    finds_batch: bool = False
    dumps: bool = False


def study_memory(
    loaded: LoadedGraph,
    options: SimulationOptions,
    name: str,
    wanted: MemoryStudyRequest | None = None,
    warn: Callable[[str], object] = lambda text: None,
) -> MemoryStudy:
    """Study the memory that a graph needs, and the changes that would make it fit.

    `warn` receives a message for each loop assumed to run once because its iteration count is unknown.  Raises an error if the
    graph or an option is wrong, and TensorFlow's errors, except for running out of memory, which is part of the study.
    """
    study = _Study(loaded, options, name, wanted or MemoryStudyRequest())
    found = study.study()
    for text in study.guesses.warnings():
        warn(text)
    return found


def find_peaks(loaded: LoadedGraph, options: SimulationOptions) -> tuple[DeviceUsage, ...]:
    """Return the peak memory of each device without limits, as a memory study does.

    Raises an error if the dry run can't finish.
    """
    outcome = search_dry_run(loaded, replace(options, no_memory_limit=True), total_peak).outcome
    if outcome.error is not None:
        raise outcome.error
    return outcome.memory


class _Study:
    def __init__(self, loaded: LoadedGraph, options: SimulationOptions, name: str, wanted: MemoryStudyRequest) -> None:
        if loaded.error is not None:
            raise loaded.error
        self._loaded = loaded
        self._options = options
        self._name = name
        self._wanted = wanted
        self.guesses = Assumptions()

    def study(self) -> MemoryStudy:
        self._check()
        options = self._options
        batch = options.batch
        if self._wanted.finds_batch:
            batch = self._largest_batch()
            options = replace(options, batch=batch or 1)
        walked, error = self._walk(options)
        unlimited = walked if error is None else self._walk(replace(options, no_memory_limit=True))[0]
        outcome, needed = walked.outcome, unlimited.outcome
        assert needed.file is not None
        categories = MemoryCategories(needed.file.graph)
        devices = tuple(self._devices(outcome, unlimited, categories))
        gpus = [(device, usage) for device, usage in _pairs(needed) if device.gpu is not None]
        study = MemoryStudy(
            name=self._name,
            devices=devices,
            error=error,
            batch=batch,
            is_searched=self._wanted.finds_batch,
            is_executed=self._wanted.is_executed,
            has_gpus=self._may_change_model(gpus),
            smallest_gpu=self._smallest_gpu(gpus) if self._may_change_model(gpus) else None,
            growth=_other_growth(gpus, fits=error is None),
            assumptions=self.guesses.sentences(),
            outcome=outcome,
        )
        if error is None or self._wanted.is_executed:
            return study
        full = next((usage for usage in needed.memory if usage.device == error.device and usage.limit is not None), None)
        fitting = None if full is None else self._fitting_batch(needed)
        return replace(
            study,
            order=self._order(options, needed, error),
            fitting_batch=fitting,
            edits=() if full is None else self._edits(options, needed, full, categories, fitting),
        )

    def _check(self) -> None:
        given = self._options.batch is not None or self._wanted.finds_batch
        if self._wanted.is_executed:
            check_execution_options(self._options, finds_batch=self._wanted.finds_batch)
        file = self._loaded.file
        if given and file is not None:
            check_batch(file.graph)

    # --- walks

    def _walk(self, options: SimulationOptions, *, tells_memory: bool = True) -> tuple[DryRun, PlacesimError | None]:
        """Return a dry run, and TensorFlow's error if a device runs out of memory. Raises any other error."""
        if self._wanted.is_executed:
            recorder = ExecutionRecorder()
            stage = SimulationStage.EXECUTED
            outcome = simulate(self._loaded, options, stage, tells_memory=tells_memory, recorder=recorder)
            walked = DryRun(outcome, recorder, self.guesses)
        else:
            loaded = self._loaded if tells_memory else self._with_few_repeats()
            walked = search_dry_run(loaded, options, total_peak, self.guesses.chosen, tells_memory=tells_memory)
            self.guesses = walked.guesses
        error = walked.outcome.error
        if error is None:
            return walked, None
        if options.no_memory_limit or not isinstance(error, ResourceExhaustedError):
            raise error
        return walked, error

    def _fits(self, batch: int) -> bool:
        return self._walk(replace(self._options, batch=batch), tells_memory=False)[1] is None

    def _with_few_repeats(self) -> LoadedGraph:
        """Return the graph with few repetitions: all repetitions of a step after the first need the same memory."""
        file = self._loaded.file
        if file is None or file.steps is None:
            return self._loaded
        return replace(self._loaded, file=replace(file, steps=with_few_repeats(file.steps)))

    def _largest_batch(self) -> int | None:
        """Return the largest batch that fits; 0 if none fits, None if every batch fits.

        The search tries multiples of the smallest valid batch, near the one that `_guess_last` returns. Without one, it doubles
        and then bisects them.
        """
        unit, fits = self._unit()
        if not fits:
            return 0
        small, large = (
            self._walk(replace(self._options, batch=count * unit, no_memory_limit=True))[0].outcome for count in (1, 2)
        )
        if guess := _guess_last(small, large, 2):
            end = MAX_BATCH // unit + 1
            last = find_last(lambda count: self._fits(count * unit), 1, end, guess)
            return None if last == end - 1 else unit * last
        low, high = 1, 2
        while self._fits(high * unit):
            low, high = high, 2 * high
            if high * unit > MAX_BATCH:
                return None
        return unit * find_last(lambda count: self._fits(count * unit), low, high)

    def _fitting_batch(self, needed: Outcome) -> int | None:
        """Return the largest batch that fits, if the requested one does not; 0 if none fits, None if there is no batch.

        `needed` is the outcome of the requested batch without memory limits.
        """
        batch = self._options.batch
        if batch is None or self._wanted.finds_batch or self._loaded.file is None:
            return None
        unit, fits = self._unit()
        if not fits:
            return 0
        least, count = self._walk(replace(self._options, batch=unit))[0].outcome, -(-batch // unit)
        return unit * find_last(lambda count: self._fits(count * unit), 1, count, _guess_last(least, needed, count))

    def _unit(self) -> tuple[int, bool]:
        first: OpError | None = None
        for unit in range(1, MAX_UNIT + 1):
            try:
                return unit, self._fits(unit)
            except OpError as error:
                first = first or error
        assert first is not None
        raise first

    # --- what else would have happened

    def _order(self, options: SimulationOptions, needed: Outcome, error: PlacesimError) -> tuple[str, ...]:
        """Return the towers on the device that ran out of memory, if running them one after another makes them fit."""
        loaded = self._loaded
        if loaded.file is None or error.device is None:
            return ()
        devices = {
            node.name: device.name
            for step in needed.prepared
            for node, device in zip(step.client.graph.nodes, step.client.devices, strict=True)
        }
        towers = find_towers(loaded.file.graph, devices, error.device)
        graph = one_after_another(loaded.file.graph, towers, devices) if towers else None
        if graph is None:
            return ()
        ordered = replace(loaded, file=replace(loaded.file, graph=graph))
        return towers if run_dry(ordered, options, self.guesses.chosen, tells_memory=False).outcome.error is None else ()

    def _edits(
        self, options: SimulationOptions, needed: Outcome, full: DeviceUsage, categories: MemoryCategories, batch: int | None
    ) -> tuple[MemoryEdit, ...]:
        """Return the changes with the most effect on the device that ran out of memory: only those that fit, if any do."""
        from placesim.studies.memory_rewrites import rewrite_edits

        estimate = recomputation_edit(full, categories)
        found = rewrite_edits(self._loaded, options, self._name, full.device, batch, estimate)
        if batch:
            least = self._walk(replace(options, batch=batch))[0].outcome
            peak = next((usage.peak for usage in least.memory if usage.device == full.device), 0)
            found.append(MemoryEdit("batch", f"--batch {batch}", peak, fits=True))
        unlimited = replace(options, no_memory_limit=True)

        def walk(loaded: LoadedGraph) -> Outcome:
            return run_dry(loaded, unlimited, self.guesses.chosen).outcome

        found.append(move_edit(self._loaded, needed, full, walk, _fits_all))
        edits = sorted(filter(None, found), key=lambda edit: edit.peak)
        return tuple([edit for edit in edits if edit.fits] or edits)[:MAX_EDITS]

    def _devices(self, outcome: Outcome, unlimited: DryRun, categories: MemoryCategories) -> Iterator[DeviceMemory]:
        reached = {usage.device: usage for usage in outcome.memory}
        executions = chain.from_iterable(unlimited.recorder.steps)
        largest = largest_workspaces(executions, workspace_limit(self._options.environment))
        for device, whole in _pairs(unlimited.outcome):
            sizes = categories.sizes(whole.holders)
            usage = reached.get(whole.device) or NEVER_USED._replace(
                device=whole.device, allocator=whole.allocator, limit=whole.limit
            )
            limit = device.allocation_limit
            if limit is None:
                yield DeviceMemory(usage, whole, None, categories=sizes)
                continue
            # after the last successful entry, the trace has the allocation that failed
            ran_out = outcome.error is not None and outcome.error.device == whole.device
            trace, end = (whole.trace, len(whole.trace)) if ran_out else (usage.trace, usage.peak_at)
            allocator = make_allocator(device.gpu, limit)
            failed = replay(trace, allocator, end)
            dump = dump_text(allocator, trace[end if failed is None else failed]) if self._wanted.dumps and trace else ()
            asked = 0 if failed is None else trace[failed]
            free = allocator.memory_limit - allocator.statistics().bytes_in_use
            most = highest_peak(unlimited.recorder.journals[device.name], largest) if device.gpu is not None else None
            yield DeviceMemory(usage, whole, allocator.fragmentation(), dump, asked, free, sizes, most)

    def _may_change_model(self, gpus: Sequence[tuple[Device, DeviceUsage]]) -> bool:
        file = self._loaded.file
        return bool(gpus) and file is not None and not file.config.gpu_options.virtual_devices

    def _smallest_gpu(self, gpus: Sequence[tuple[Device, DeviceUsage]]) -> SmallestGpu | None:
        assert self._loaded.file is not None
        gpu_options = self._loaded.file.config.gpu_options
        environment = GpuEnvironment.of(self._options.environment)
        candidates = []
        for model in GPU_MODELS.values():
            try:
                limit = gpu_memory_limit(model, gpu_options, environment)
            except InternalError:  # this model can't satisfy the options
                continue
            candidates.append(SmallestGpu(model, limit // max(1, gpu_options.num_virtual_devices_per_gpu)))
        least = max(_least_bytes(usage.trace) for _, usage in gpus)
        enough = sorted((c for c in candidates if c.limit >= least), key=lambda c: (c.limit, c.model.memory))
        return next((c for c in enough if all(_holds(device.gpu, c.limit, usage) for device, usage in gpus)), None)


def _guess_last(small: Outcome, large: Outcome, count: int) -> int:
    """Return the largest multiple of a batch that fits if the size of each allocation is linear in the batch; 0 if unknown.

    `small` is the outcome of the batch without memory limits, and `large` that of `count` times the batch.
    """
    traces, larger = [], {usage.device: usage.trace for usage in large.memory}
    for device, usage in _pairs(small):
        if device.allocation_limit is None:
            continue
        few, many = usage.trace, larger.get(usage.device, ())
        if count < 2 or len(few) != len(many) or any(a != b and min(a, b) < 0 for a, b in zip(few, many, strict=True)):
            return 0
        traces.append((device.gpu, device.allocation_limit, [*zip(few, many, strict=True)]))

    def fits(times: int) -> bool:
        return all(
            replay([few + (many - few) * (times - 1) // (count - 1) for few, many in sizes], make_allocator(gpu, limit)) is None
            for gpu, limit, sizes in traces
        )

    high = 2
    while fits(high):
        high *= 2
        if high > MAX_BATCH:
            return 0
    return find_last(fits, high // 2, high)


def find_last(fits: Callable[[int], bool], low: int, high: int, guess: int = 0) -> int:
    """Return the last number that fits, between `low`, which fits, and `high`, which does not.

    The search bisects. If a guess is between both, it begins there and strides away until it has passed the result.
    """
    reach = 1
    while high - low > 1:
        is_near = low < guess < high
        middle = guess if is_near else (low + high) // 2
        if fits(middle):
            low, guess = middle, middle + reach if is_near else 0
        else:
            high, guess = middle, middle - reach if is_near else 0
        reach *= 4
    return low


def _pairs(outcome: Outcome) -> list[tuple[Device, DeviceUsage]]:
    devices = {device.name: device for device in outcome.devices}
    return [(devices[usage.device], usage) for usage in outcome.memory]


def _fits_all(outcome: Outcome) -> bool:
    """Whether every device of a dry run without limits has enough memory for its trace."""
    return all(
        device.allocation_limit is None or _holds(device.gpu, device.allocation_limit, usage)
        for device, usage in _pairs(outcome)
    )


def _holds(gpu: GpuMemory | None, limit: int, usage: DeviceUsage) -> bool:
    return replay(usage.trace, make_allocator(gpu, limit)) is None


def _least_bytes(trace: Sequence[int]) -> int:
    """Return the maximum number of bytes in use at once, which any allocator needs."""
    sizes: list[int] = []
    in_use = most = 0
    for event in trace:
        if event >= 0:
            sizes.append(event)
            in_use += event
            most = max(most, in_use)
        else:
            in_use -= sizes[-1 - event]
    return most


def _other_growth(gpus: Sequence[tuple[Device, DeviceUsage]], *, fits: bool) -> bool | None:
    """Return the value of `allow_growth` that changes whether the graph fits; None if neither value does."""
    flipped = [(device.gpu._replace(allow_growth=not device.gpu.allow_growth), usage) for device, usage in gpus if device.gpu]
    if not flipped or all(_holds(gpu, gpu.memory_limit, usage) for gpu, usage in flipped) == fits:
        return None
    return flipped[0][0].allow_growth
