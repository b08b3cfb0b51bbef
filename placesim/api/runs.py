"""Functions that list devices, or place, dry-run or execute a graph with options by name.

They return a report or raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Unpack

from placesim.api.calls import api_call
from placesim.core.errors import UsageError
from placesim.formats.sources.loading import SourceGraph, source_name
from placesim.formats.sources.loading import load as load_source
from placesim.machine.gpu_memory import GpuLogLine, GpuProcess
from placesim.machine.gpu_options import DeviceOptions, GpuEnvironment
from placesim.machine.inventory import Device, build_devices
from placesim.machine.options import MemoryOptionValues, OptionValues, check_named, make_options, with_options
from placesim.runtime.cluster.connection_settings import CONNECT_SECONDS, ENGINES, PER, Connection, Tls
from placesim.studies.simulation.settings import build_machine_settings, session_config, session_devices
from placesim.studies.simulation.simulation import SimulationStage, simulate

if TYPE_CHECKING:
    from placesim.formats.sources.loading import Source
    from placesim.report.memory_report import MemoryReport
    from placesim.report.report import Report
    from placesim.runtime.sessions.outcome import Outcome
    from placesim.runtime.sessions.session import GraphSession


@with_options
def load(source: Source, **options: Unpack[OptionValues]) -> SourceGraph:
    """Read a graph once, and return it for any number of calls that take a graph's path.

    A script runs with these `options`. A call reads the graph again only if its options change the content: other device
    requests, another release, or another part of a model. Raises an error if the graph or an option is wrong.
    """
    chosen = make_options(options)
    found = SourceGraph(source, chosen)
    error = found.load(chosen).error
    if error is not None:
        raise error
    return found


@with_options
@api_call
def run(
    source: Source,
    *,
    engine: str = ENGINES[0],
    scheduler: str | None = None,
    scheduler_timeout: float = CONNECT_SECONDS,
    worker: str | Sequence[str] | Mapping[str, str] = (),
    worker_per: str = PER[0],
    tls_ca_file: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    **options: Unpack[OptionValues],
) -> Report:
    """Load, place and execute a graph, given as a path, an open file or a mapping.

    With `engine="dask"`, it runs on workers of a Dask cluster. These are the workers of a `scheduler`, assigned to devices by
    `worker` (`DEVICE=ADDRESS`, or a mapping), or new ones on this machine. Options are named like the command line's flags.
    Raises the same errors as `placesim run`; the exception's `report` has the results up to the error.
    """
    chosen = make_options(options)
    bindings = worker.items() if isinstance(worker, Mapping) else ()
    workers = (worker,) if isinstance(worker, str) else tuple("=".join(pair) for pair in bindings) or tuple(worker)
    tls = Tls(tls_ca_file, tls_cert, tls_key)
    connection = Connection(scheduler, workers, worker_per, scheduler_timeout, tls)
    check_named("engine", engine, ENGINES)
    check_named("worker_per", worker_per, PER)
    if engine == ENGINES[0] and connection != Connection():
        raise UsageError(f"cluster options without a cluster: expected engine='{ENGINES[1]}' as well")
    loaded = load_source(source, None, chosen)
    if not chosen.execute:
        return _checked(simulate(loaded, chosen, SimulationStage.PARTITIONED))
    with nullcontext() if engine == ENGINES[0] else _sessions_on(connection) as opened:
        return _checked(simulate(loaded, chosen, SimulationStage.EXECUTED, opened=opened))


def _sessions_on(connection: Connection) -> AbstractContextManager[Callable[..., GraphSession]]:
    from placesim.runtime.dask.session_factory import open_cluster_sessions

    return open_cluster_sessions(connection)


@with_options
@api_call
def place(source: Source, **options: Unpack[OptionValues]) -> Report:
    """Place a graph without executing it: no kernels, feeds or values are needed."""
    chosen = make_options({"log_placement": True, **options})
    return _checked(simulate(load_source(source, None, chosen), chosen, SimulationStage.PARTITIONED))


@with_options
@api_call
def memory(
    source: Source, *, batch: int | Literal["auto"] | None = None, dump: bool = False, **options: Unpack[MemoryOptionValues]
) -> MemoryReport:
    """Report the memory that each device needs during a graph's steps, in bytes, and what would fit.

    The steps are simulated without computing values, so all sizes must be known. `batch` is the first dimension of placeholders
    that leave it unknown; "auto" finds the largest that fits. With `execute=True` the steps are executed, which is needed if
    sizes depend on values. `dump` adds TensorFlow's dump of each allocator at its peak, or when it ran out of memory.

    Raises the same errors as `placesim memory`. These include ResourceExhaustedError if a device runs out of memory; the
    exception's `report` then has the whole MemoryReport.
    """
    from placesim.report.memory_report import MemoryReport
    from placesim.studies.memory_study import MemoryStudyRequest, study_memory

    finds_batch = batch == "auto"
    if isinstance(batch, str) and not finds_batch:
        raise UsageError(f"wrong batch: got {batch!r}, expected an integer or 'auto'")
    chosen = make_options({"execute": False, **options, "batch": None if finds_batch else batch})
    wanted = MemoryStudyRequest(chosen.execute, finds_batch, dump)
    study = study_memory(load_source(source, None, chosen), chosen, source_name(source), wanted)
    report = MemoryReport.of_study(study)
    if study.error is not None:
        study.error.report = report
        raise study.error
    return report


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
    log: Callable[[GpuLogLine], None] = lambda line: None,
) -> tuple[Device, ...]:
    """List the devices of a simulated machine in the order of `session.list_devices()`.

    With `graph`, the machine and `config` of the graph determine the devices. `tensorflow` is the release, and `log` receives
    its log messages. Raises the errors that TensorFlow raises when it creates a session on this machine.
    """
    given = {"environment": environment or {}, "process": process}
    options = make_options(
        {"cpu": cpu, "gpu": gpu, "gpu_model": gpu_model, "inventory": inventory, "tensorflow": tensorflow, **given}
    )
    if graph is None:
        found = GpuEnvironment.of(options.environment)
        told = DeviceOptions(environment=found, release=options.release)
        return build_devices(build_machine_settings(None, options).tasks, told, options.process, log)
    loaded = load_source(graph, None, options)
    if loaded.error is not None or loaded.file is None:
        raise loaded.error or UsageError("no graph")
    tasks = build_machine_settings(loaded.file, options).tasks
    return session_devices(tasks, session_config(loaded.file, options), options, log, loaded.file.graph.registry.rules)


def _checked(outcome: Outcome) -> Report:
    from placesim.report.report import Report

    if outcome.error is not None:
        raise outcome.error
    return Report.of(outcome)
