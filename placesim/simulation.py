"""A graph, a machine and options -> a report: what the command line and Python callers share.

Only what `devices` needs is imported here; numpy and the rest come with the first graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

import placesim.memory  # noqa: F401 - the package, before the function of that name takes its place in `placesim`
from placesim.collector import collector_paused
from placesim.deadlines import run_within
from placesim.devices.catalogue import GPU_MODELS, GpuModel, near_models
from placesim.devices.gpu_memory import GpuProcess, LogLine
from placesim.devices.gpu_options import DeviceOptions, GpuEnvironment
from placesim.devices.inventory import Device, DeviceSet, TaskInventory, build_devices
from placesim.devices.links import NO_LINKS, MachineLinks
from placesim.errors import DeadlineExceededError, GraphFileError, Interrupted, PlacesimError, UsageError
from placesim.interrupts import LastWords
from placesim.loading import Loaded, load, read_bytes
from placesim.options import Options, OptionValues, make_options, with_options
from placesim.releases import Release
from placesim.watching import current_watcher, doing

if TYPE_CHECKING:
    from pathlib import PurePath

    from placesim.files.access import FileAccess
    from placesim.graph.graph import Graph
    from placesim.graph.steps import Config, Fetch, GraphFile, Step
    from placesim.loading import Source
    from placesim.memory.dump import LogLine as MemoryLogLine
    from placesim.report.report import Report
    from placesim.report.results import Result
    from placesim.runtime.accounting.ledger import Ledger
    from placesim.runtime.accounting.usage import DeviceUsage
    from placesim.runtime.graph_shapes import GraphShapes
    from placesim.runtime.guesses import Guesses
    from placesim.runtime.measuring import Measurements
    from placesim.runtime.prepared import PreparedStep
    from placesim.runtime.recording import Recorder
    from placesim.runtime.resources import SharedResources
    from placesim.runtime.saving.runs import RunSaver
    from placesim.runtime.session import Session
    from placesim.runtime.walking import FeedShapes

Progress = Callable[[int, int, int, int], None]
"""Told now and then: steps done, of how many, and nodes done in this step, of how many."""


class Growth(IntEnum):
    """What may still be established beside results when a step has ended: what is named, and all before it."""

    NOTHING = 0
    CUTS = 1
    BODIES = 2
    NODES = 3


class SoFar(NamedTuple):
    """What was established beside results: the report of it, its `size`, which changes when it has grown, and its future."""

    report: Callable[[], Report]
    size: int
    growth: Growth


class Taker(Protocol):
    """Takes the results of each step as it ends, in the place of a report that keeps them all."""

    def take(self, rows: Sequence[Result], so_far: SoFar) -> bool:
        """Whether more is wanted."""

    def leave(self, report: Report) -> None:
        """All that there is, where Ctrl-C ends the process while a kernel runs."""


class Stage(IntEnum):
    """How far to go; a step that is walked through accounts for memory and computes nothing."""

    PLACED = 0
    PARTITIONED = 1
    WALKED = 2
    EXECUTED = 3


_DOING = {Stage.WALKED: "walking through nodes", Stage.EXECUTED: "running nodes"}
"""What a stage does with each node, for who watches."""


# --- for Python callers ---------------------------------------------------------------------------------------------


@with_options
def run(source: Source, **options: Unpack[OptionValues]) -> Report:
    """Load, place and execute a graph: a path, an open file, or the mapping itself.

    Options are named as the command line's flags.  Raises what the command line reports as an error, with what was established
    before it as the exception's `report`.
    """
    chosen = make_options(options)
    return _checked(simulate(load(source, None, chosen), chosen, Stage.EXECUTED if chosen.execute else Stage.PARTITIONED))


@with_options
def place(source: Source, **options: Unpack[OptionValues]) -> Report:
    """The same without execution: no kernels, feeds or values are needed."""
    chosen = make_options({"log_placement": True, **options})
    return _checked(simulate(load(source, None, chosen), chosen, Stage.PARTITIONED))


@with_options
def memory(source: Source, **options: Unpack[OptionValues]) -> Report:
    """Walk through a graph's steps without computing: the report's `memory` says what each device has to hold.

    With `execute=True` they are computed, for sizes that depend on values.  Raises what running out of memory raises, with what
    was established before it as the exception's `report`.
    """
    chosen = make_options({"execute": False, **options})
    stage = Stage.EXECUTED if chosen.execute else Stage.WALKED
    return _checked(simulate(load(source, None, chosen), chosen, stage, tells_memory=True))


def devices(
    cpu: int | None = None,
    gpu: int | None = None,
    gpu_model: str | None = None,
    inventory: Any = None,
    *,
    tensorflow: Any = None,
    graph: Source | None = None,
    environment: Mapping[str, str] | None = None,
    process: GpuProcess | None = None,
    log: Callable[[LogLine], None] = lambda line: None,
) -> tuple[Device, ...]:
    """The devices of a simulated machine in the order of `session.list_devices()`.

    With `graph` they are those of its session: its machine, where it says one, under its `config`.  `tensorflow` is the release
    that makes them, and `log` is told what that logs meanwhile.  Raises what it raises then.
    """
    given = {"environment": environment or {}, "process": process}
    options = make_options(
        {"cpu": cpu, "gpu": gpu, "gpu_model": gpu_model, "inventory": inventory, "tensorflow": tensorflow, **given}
    )
    if graph is None:
        found = GpuEnvironment.of(options.environment)
        told = DeviceOptions(environment=found, release=options.release)
        return build_devices(machine_of(None, options).tasks, told, options.process, log)
    loaded = load(graph, None, options)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError("no graph")
    tasks = machine_of(loaded.file, options).tasks
    return _session_devices(tasks, session_config(loaded.file, options), options, log, loaded.file.graph.registry.rules)


def open_measurements() -> Measurements:
    """What `simulate` may be given to be told when what ran."""
    from placesim.runtime.measuring import Measurements

    return Measurements()


def _checked(report: Report) -> Report:
    if report.error is not None:
        raise report.error
    return report


# --- from loaded graph to report ------------------------------------------------------------------------------------


def simulate(
    loaded: Loaded,
    options: Options,
    stage: Stage,
    progress: Progress | None = None,
    taker: Taker | None = None,
    *,
    tells_memory: bool = False,
    recorder: Recorder | None = None,
    guesses: Guesses | None = None,
    measurements: Measurements | None = None,
    opened: Callable[..., Session] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Place a graph and, as far as `stage` says, partition and execute its steps.

    An error ends it: the report holds it, beside all that was established before.  With a `taker` it holds no results, a step
    is the last where that wants no more, and Ctrl-C ends in a report, too, whose error is Interrupted.  With `tells_memory` it
    says what each device's memory held; a `recorder` is then told what each step executes.  In a walk `guesses` say what is
    taken where values are not known.  `measurements` are told when what ran, and what it held.  `opened` makes sessions that
    run elsewhere, whose devices' memory is not accounted for.  `tell` is told what is to know of checkpoints.
    """
    simulation = _Simulation(
        loaded,
        options,
        stage,
        progress,
        taker,
        tells_memory=tells_memory,
        recorder=recorder,
        guesses=guesses,
        measurements=measurements,
        opened=opened,
        tell=tell,
    )
    error: PlacesimError | None = None
    try:
        with _last_words(simulation, taker), collector_paused() if stage == Stage.WALKED else nullcontext():
            simulation.run()
    except KeyboardInterrupt:
        if taker is None:
            raise
        error = simulation.interruption()
    except PlacesimError as problem:
        error = problem
        if "You must feed a value for placeholder" in problem.message and loaded.signatures:
            from placesim.report.text.signatures import ways_to_feed

            problem.help = (*problem.help, *ways_to_feed(loaded.signatures))
    report = simulation.report(error)
    simulation.close()
    if error is not None:
        error.report = report
    return report


def _last_words(simulation: _Simulation, taker: Taker | None) -> AbstractContextManager[None]:
    return nullcontext() if taker is None else LastWords(lambda: taker.leave(simulation.report(simulation.interruption())))


class _Simulation:
    """One session from its making to its last step, and what it has established so far."""

    def __init__(
        self,
        loaded: Loaded,
        options: Options,
        stage: Stage,
        progress: Progress | None,
        taker: Taker | None,
        *,
        tells_memory: bool,
        recorder: Recorder | None,
        guesses: Guesses | None,
        measurements: Measurements | None,
        opened: Callable[..., Session] | None,
        tell: Callable[[str], None],
    ) -> None:
        self._loaded = loaded
        self._tell = tell
        self._opened = opened
        self._taker = taker
        self._options = options
        self._stage = stage
        self._progress = progress
        self._session: Session | None = None
        self._shapes: GraphShapes | None = None
        self._prepared: dict[int, PreparedStep] = {}
        self._results: list[Result] = []
        self._fetches: list[str] = []
        self._shows_log = bool(options.log_placement)
        self._creation_log: list[LogLine] = []
        self._links = NO_LINKS
        self._tells_memory = tells_memory
        self._recorder = recorder
        self._guesses = guesses
        self._measurements = measurements
        self._ledger: Ledger | None = None
        self._memory_log: list[MemoryLogLine] = []
        self._running: int | None = None

    def report(self, error: PlacesimError | None) -> Report:
        """All that has been established."""
        from placesim.report.report import Report
        from placesim.report.results import Results

        session = self._session
        return Report(
            session.device_set.devices if session is not None else (),
            tuple(session.placements) if session is not None else (),
            tuple(self._prepared.values()),
            error,
            self._shapes,
            tuple(self._creation_log),
            self._memory(),
            tuple(self._memory_log),
            self._links,
            () if self._loaded.file is None else self._loaded.file.doubts,
            Results(self._results),
            tuple(self._fetches),
            self._options.log_style,
            self._shows_log,
            annotations=self._loaded.annotations,
            file=self._loaded.file,
        )

    def interruption(self) -> Interrupted:
        """The error that stands for Ctrl-C."""
        where = "before the first step" if self._running is None else f"in step {self._running}"
        return Interrupted(f"interrupted {where}")

    def close(self) -> None:
        """The session ends, and gives its memory back."""
        if self._session is not None:
            self._session.close()

    def run(self) -> None:
        from placesim.runtime.session import Session, open_session
        from placesim.runtime.shape_check import check_shapes

        if self._loaded.error is not None:
            raise self._loaded.error
        file = self._loaded.file
        assert file is not None
        config = session_config(file, self._options)
        self._shapes = run_within(config.timeout_seconds, lambda: check_shapes(file))
        if self._options.log_placement is None:
            self._shows_log = config.log_device_placement
        steps = steps_of(self._loaded, file, self._options, one_by_one=self._stage >= Stage.EXECUTED)
        if self._loaded.needs_fetch and self._stage >= Stage.EXECUTED and self._options.fetch is None:
            raise UsageError(self._loaded.needs_fetch)
        tasks, self._links = machine_of(file, self._options)
        machine = _session_devices(tasks, config, self._options, self._creation_log.append, file.graph.registry.rules)
        files = _file_access(self._loaded, self._options)
        self._ledger = self._open_ledger(machine)
        directory = self._loaded.directory
        self._session = open_session(
            file,
            machine,
            config,
            directory,
            files,
            self._ledger,
            self._feed_shapes(file.graph),
            self._measurements,
            self._opened or Session,
        )
        self._run_steps(self._session, steps, names_sinks=file.is_raw and self._stage >= Stage.WALKED)

    def _feed_shapes(self, graph: Graph) -> FeedShapes | None:
        if self._stage != Stage.WALKED:
            return None
        from placesim.runtime.guesses import Guesses
        from placesim.runtime.walking import FeedShapes

        options = self._options
        given = Guesses(iterations=options.loop_counts, dimension=options.assume_unknown)
        shapes = {name: shape for text, shape in options.shapes.items() for name in graph.spelled_out(text)}
        return FeedShapes(shapes, options.batch, self._guesses or given)

    def _open_ledger(self, machine: Sequence[Device]) -> Ledger | None:
        """What accounts for the devices' memory, where one has a limit or it shall be told."""
        if self._stage < Stage.WALKED or self._opened is not None:
            return None
        is_told = self._tells_memory or self._measurements is not None
        if not is_told and all(device.allocation_limit is None for device in machine):
            return None
        from placesim.runtime.accounting.building import build_ledger
        from placesim.runtime.accounting.errors import ReportOptions
        from placesim.runtime.accounting.usage import record

        options = self._options
        ledger = build_ledger(
            machine,
            has_limits=not options.no_memory_limit,
            report=ReportOptions(options.report_tensor_allocations_upon_oom),
            log=self._memory_log.append,
            process=options.process,
        )
        if is_told:
            record(ledger)
        if self._measurements is not None:
            self._measurements.follow(ledger)
        if self._recorder is not None:
            self._recorder.attach(ledger)
        return ledger

    def _memory(self) -> tuple[DeviceUsage, ...]:
        if self._ledger is None or not self._tells_memory:
            return ()
        from placesim.runtime.accounting.usage import device_usage

        return device_usage(self._ledger)

    def _run_steps(self, session: Session, steps: Sequence[Step], names_sinks: bool) -> None:
        """Step after step; `names_sinks` fetches the outputs of a raw graph's sinks, which by themselves are targets."""
        total = sum(step.repeat for step in steps)
        saver = self._open_saver()
        first = 0 if saver is None else saver.done
        done = 0
        if not steps:
            run_within(session.config.timeout_seconds, partial(self._place, session))
        for index, step in enumerate(steps):
            if saver is not None and done == first:
                saver.resume(session, steps[:index])
            if step.nodes:
                session.extend(step.nodes)
            if done + step.repeat <= first:
                done += step.repeat
                continue
            if saver is not None and done < first:
                saver.resume(session, steps[: index + 1])
            if names_sinks and not step.fetches:
                step = replace(step, fetches=session.sink_tensors())
            prepared = run_within(session.config.timeout_seconds, partial(self._prepare, session, step))
            if prepared is not None and self._stage >= Stage.WALKED:
                growth = _growth(session, steps[index + 1 :])
                for number in range(max(done, first), done + step.repeat):
                    self._running = number
                    if not self._execute(session, step, prepared, number, total, growth):
                        return
                    if saver is not None:
                        saver.after(session, number + 1, is_last=number + 1 == total)
                done += step.repeat
        if saver is not None and first >= total:
            saver.nothing_left(session)

    def _open_saver(self) -> RunSaver | None:
        """What writes the checkpoints of a run that is executed, and goes on from one."""
        options = self._options
        if self._stage < Stage.EXECUTED or not options.is_saved:
            return None
        from pathlib import Path

        from placesim.runtime.saving.runs import KEEP, RunSaver

        keep = KEEP if options.checkpoint_keep is None else options.checkpoint_keep
        return RunSaver(Path(options.checkpoint), options.checkpoint_every or 0, keep, self._tell, restarts=options.restart)

    def _prepare(self, session: Session, step: Step) -> PreparedStep | None:
        """Place what the step needs and, where that is wanted, cut it out."""
        fetched = session.resolve_fetches(step)
        self._fetches += [session.graph.nodes[fetch.node].name for fetch in fetched]
        self._place(session)
        if self._stage < Stage.PARTITIONED:
            return None
        prepared = session.prepare(step)
        self._prepared[id(prepared)] = prepared
        return prepared

    def _place(self, session: Session) -> None:
        """Place the graph; with `place_pruned_graph` each step places its own part instead."""
        if not session.config.place_pruned_graph and session.placement.error is not None:
            raise session.placement.error

    def _execute(self, session: Session, step: Step, prepared: PreparedStep, done: int, total: int, growth: Growth) -> bool:
        """Whether the results are wanted: then another step may be."""
        from placesim.report.results import Result

        nodes = sum(len(part.graph) for part in prepared.partitions.parts)
        progress = self._progress
        report = None if progress is None else lambda nodes_done: progress(done, total, nodes_done, nodes)
        ran = [0]
        if report is not None:
            report(0)
        elif current_watcher() is not None:
            report = partial(ran.__setitem__, 0)
        measured = nullcontext() if self._measurements is None else self._measurements.step(done)
        with doing(_DOING[self._stage], lambda: (ran[0], nodes)), measured:
            try:
                result = session.run(step, progress=report)
            except DeadlineExceededError as error:
                error.help = (*error.help, f"step {done} was running")
                raise
        if self._stage < Stage.EXECUTED:
            return True
        rows = [Result(done, value.name, value.dtype, value.value) for value in result.values]
        if self._taker is not None:
            size = len(session.placements) + len(self._prepared)
            return self._taker.take(rows, SoFar(partial(self.report, None), size, growth))
        self._results += rows
        return True


def _growth(session: Session, later: Sequence[Step]) -> Growth:
    """What may be established after a step that these follow: a function's body is placed when it is first called."""
    if later and (session.config.place_pruned_graph or any(step.nodes for step in later)):
        return Growth.NODES
    if session.graph.functions:
        return Growth.BODIES
    return Growth.CUTS if later else Growth.NOTHING


# --- sessions of a Python program -----------------------------------------------------------------------------------


class OpenedMachine(NamedTuple):
    """The devices that a program's session was made on, under its config and the options of its machine."""

    devices: tuple[Device, ...]
    device_set: DeviceSet
    config: Config
    creation_log: tuple[LogLine, ...]
    options: Options
    process: GpuProcess
    tasks: tuple[TaskInventory, ...] = ()
    links: MachineLinks = NO_LINKS
    shared: SharedResources | None = None

    def open_session(self, graph: Graph) -> Session:
        """A session that runs steps of a graph, which may grow between them; it may touch what the program itself may."""
        from placesim.files.access import FileAccess
        from placesim.runtime.session import Session

        files = FileAccess.of([], (), True)
        ledger = open_ledger(self.devices, self.options, self.process)
        return Session(graph, self.devices, self.config, files=files, ledger=ledger, shared=self.shared)


def open_machine(
    config: Config,
    options: Options,
    process: GpuProcess,
    *,
    puts_counts_aside: bool = False,
    cluster: Sequence[tuple[str, int]] = (),
) -> OpenedMachine:
    """What a session with this config is made on: the machine, or for jobs with numbers of tasks a cluster.

    The config's `device_count` chooses among the machine's devices; those of the command line put it aside.  Raises what
    TensorFlow raises while it makes the devices.
    """
    from placesim.runtime.visible_devices import build_device_set

    log: list[LogLine] = []
    settled = override_config(config, options if puts_counts_aside else replace(options, cpu=None, gpu=None))
    tasks, links = machine_of(None, options)
    if cluster:
        tasks = _cluster_of(tasks, cluster)
    devices = _session_devices(tasks, settled, replace(options, process=process), log.append, options.release)
    return OpenedMachine(
        devices, build_device_set(devices, settled, options.release), settled, tuple(log), options, process, tasks, links
    )


def _cluster_of(known: Sequence[TaskInventory], cluster: Sequence[tuple[str, int]]) -> tuple[TaskInventory, ...]:
    """Jobs with their numbers of tasks, each as what is known of its job, else as the first one that is known."""
    by_job = {task.job: task for task in known}
    return tuple(by_job.get(job, known[0])._replace(job=job, tasks=count) for job, count in cluster)


def open_ledger(machine: Sequence[Device], options: Options, process: GpuProcess) -> Ledger | None:
    """What accounts for the memory of devices, where one has a limit."""
    if all(device.allocation_limit is None for device in machine):
        return None
    from placesim.runtime.accounting.building import build_ledger
    from placesim.runtime.accounting.errors import ReportOptions

    report = ReportOptions(options.report_tensor_allocations_upon_oom)
    return build_ledger(machine, has_limits=not options.no_memory_limit, report=report, process=process)


# --- what the options override --------------------------------------------------------------------------------------


def session_config(file: GraphFile, options: Options) -> Config:
    """The file's config with what the options say in its place."""
    return override_config(file.config, options)


def override_config(config: Config, options: Options) -> Config:
    """A config with what the options say in its place."""
    given: dict[str, Any] = {
        "allow_soft_placement": options.soft_placement,
        "log_device_placement": options.log_placement,
        "intra_op_parallelism_threads": options.intra_op_threads,
        "inter_op_parallelism_threads": options.inter_op_threads,
        "memory_limit": _memory_limit(options.memory_limit),
        "operation_timeout_in_ms": None if options.timeout is None else max(1, round(options.timeout * 1000)),
    }
    flags = {"CPU": options.cpu, "GPU": options.gpu}
    counts = tuple((kind, count) for kind, count in config.device_count if flags.get(kind) is None)
    return replace(config, device_count=counts, **{name: value for name, value in given.items() if value is not None})


def _session_devices(
    tasks: Sequence[TaskInventory],
    config: Config,
    options: Options,
    log: Callable[[LogLine], None],
    release: Release,
) -> tuple[Device, ...]:
    from placesim.runtime.visible_devices import build_session_devices

    return build_session_devices(tasks, config, options.environment, options.process, log, release)


def _file_access(loaded: Loaded, options: Options) -> FileAccess:
    """The graph may read below its own folder and what the options name, and write what they allow."""
    from placesim.files.access import FileAccess, checkpoint_files
    from placesim.graph.steps import FromFile

    named: list[str | PurePath] = [loaded.folder, *options.readable_paths]
    for value in options.feed.values():
        path = value.path if isinstance(value, FromFile) else value.get("file") if isinstance(value, Mapping) else None
        if isinstance(path, str):
            named.append(loaded.directory / path)
    if options.checkpoint is not None:
        named += checkpoint_files(options.checkpoint)
    return FileAccess.of(named, options.writable_paths, options.allow_all_files)


def _memory_limit(given: int | str | None) -> int | None:
    """Bytes, or a text with a unit, as a number of bytes; UsageError for what is no size."""
    if given is None:
        return None
    from placesim.formats.graph_file.plain_values import size_value
    from placesim.formats.problems import Wrong

    try:
        return size_value(int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 20 else given)
    except Wrong as wrong:
        raise UsageError(f"memory limit: {wrong}") from None


class Machine(NamedTuple):
    """What each task has, and how they reach each other."""

    tasks: tuple[TaskInventory, ...]
    links: MachineLinks


def machine_of(file: GraphFile | None, options: Options) -> Machine:
    """The file's machine, or the `inventory`'s, with the counts, the model and the links that the options give."""
    tasks = (file.inventory if file is not None else None) or (TaskInventory(),)
    links = NO_LINKS if file is None else file.links
    if options.inventory is not None:
        tasks, links = _read_inventory(options.inventory)
    if options.link:
        from placesim.formats.graph_file.overrides import parse_links

        links = links._replace(given=parse_links(options.link))
    given: dict[str, Any] = {"cpu": options.cpu, "gpu": options.gpu}
    if options.gpu_model is not None:
        given["gpu_model"] = find_gpu_model(options.gpu_model)
    values = {name: value for name, value in given.items() if value is not None}
    tasks = tuple(task._replace(**values) for task in tasks)
    for profile in options.profiles:
        for known in _read_inventory(profile)[0]:
            tasks = tuple(_with_profile(task, known) for task in tasks)
    if options.link:
        from placesim.formats.graph_file.links import check_given

        check_given(links.given, tasks)
    return Machine(tasks, links)


def _with_profile(task: TaskInventory, known: TaskInventory) -> TaskInventory:
    """The task with another's host, and with the figures of its GPUs' model where that is the same."""
    own, other = task.gpu_model, known.gpu_model
    if own.name == other.name:
        own = own._replace(flops=other.flops, bandwidth=other.bandwidth, figures=other.figures)
    return task._replace(host=known.host or task.host, gpu_model=own)


def _read_inventory(source: Any) -> tuple[tuple[TaskInventory, ...], MachineLinks]:
    from placesim.formats.graph_file.overrides import read_inventory

    return (
        read_inventory(source) if isinstance(source, Mapping) else read_inventory(read_bytes(source, "inventory"), str(source))
    )


def find_gpu_model(name: str) -> GpuModel:
    """A model of the catalogue; UsageError, with the nearest, for any other name."""
    found = GPU_MODELS.get(name)
    if found is None:
        raise UsageError(f"unknown GPU model: got '{name}', expected one of the catalogue{near_models(name)}")
    return found


def steps_of(loaded: Loaded, file: GraphFile, options: Options, *, one_by_one: bool = False) -> tuple[Step, ...]:
    """The file's steps under `fetch` and `feed`; `one_by_one` each with what it was fed itself.

    `fetch` puts one step in the place of all those that fetch a tensor, with the last step's feeds; steps that only run
    targets, as initializers do, are kept before it.  `feed` is given in every step, in the place of a feed of the same tensor.
    Both may name the arguments of a model's signature.
    """
    from placesim.formats.graph_file.overrides import read_feeds
    from placesim.graph.steps import Step

    steps = (Step(),) if file.steps is None else file.steps
    if one_by_one and file.each_step is not None:
        steps = file.each_step
    if options.fetch is not None:
        names = (options.fetch,) if isinstance(options.fetch, str) else options.fetch
        feeds = steps[-1].feeds if steps else ()
        kept = [step for step in steps if step.nodes or _runs_targets_only(file, step)]
        steps = (*kept, Step(tuple(fetch for name in names for fetch in _fetches(loaded, file.graph, name)), feeds))
    if not options.feed:
        return steps
    given = read_feeds(file.graph, {loaded.inputs.get(name, name): value for name, value in options.feed.items()})
    replaced = {feed.tensor for feed in given}
    return tuple(replace(step, feeds=(*(feed for feed in step.feeds if feed.tensor not in replaced), *given)) for step in steps)


def _fetches(loaded: Loaded, graph: Graph, text: str) -> list[Fetch]:
    """What a text means in `--fetch`: an output of the signature, a variable's value, the nodes of an id, or a tensor."""
    from placesim.graph.steps import Fetch

    names = graph.spelled_out(loaded.outputs.get(text) or graph.values.get(text, text))
    return [Fetch(name, label=text if len(names) == 1 else name) for name in names]


def _runs_targets_only(file: GraphFile, step: Step) -> bool:
    from placesim.runtime.requests import resolve_fetch

    return bool(step.fetches) and all(resolve_fetch(file.graph, fetch, file.is_raw).tensor is None for fetch in step.fetches)


def is_as_python_builds(file: GraphFile) -> bool:
    """Whether no shape function refuses a node of a graph that is written as Python builds one."""
    from placesim.runtime.shape_check import check_shapes

    try:
        check_shapes(file)
    except GraphFileError:
        return False
    return True
