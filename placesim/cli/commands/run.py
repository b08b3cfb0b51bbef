"""`placesim run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.cluster_options import scheduler_options, take_connection, worker_options
from placesim.cli.command import command, typed_options
from placesim.cli.option_types import (
    CLUSTER,
    OutputFile,
    Word,
    checkpoint_option,
    cluster_option,
    machine_option,
    own_option,
    report_option,
)
from placesim.cli.options import feed_option, file_access_options, given, graph_options, in_shell, report_options, trace_option
from placesim.core.errors import UsageError
from placesim.runtime.cluster.connection_settings import ENGINES

if TYPE_CHECKING:
    from placesim.cli.progress import TerminalProgress
    from placesim.cli.report_output import ReportWriter
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.cluster.connection_settings import Connection
    from placesim.runtime.cluster.device_assignment import DeviceMove
    from placesim.runtime.recording.kernel_timing import Measurements
    from placesim.runtime.sessions.outcome import Outcome
    from placesim.runtime.sessions.session import GraphSession


@command("run")
@click.argument("graph")
@report_option(
    "--log-placement/--no-log-placement",
    default=None,
    help="Print the device mapping and one line per node before the results.",
)
@graph_options
@feed_option
@report_options
@report_option(
    "--format",
    "form",
    type=Word(("text", "json", "jsonl")),
    default="text",
    help="Output format; jsonl writes a line when a step ends (default: text).",
)
@machine_option(
    "--intra-op-threads",
    type=int,
    metavar="N",
    help="Number of threads within an op; 0: one per core (default: the file's, else 0).",
    folder_values="none",
)
@machine_option(
    "--inter-op-threads",
    type=int,
    metavar="N",
    help="Number of ops that run at the same time; 0: one per core (default: the file's, else 0).",
    folder_values="none",
)
@file_access_options
@report_option(
    "--log-creation", is_flag=True, help="Print TensorFlow's log line for each GPU device that it creates, on standard error."
)
@machine_option(
    "--memory-limit",
    metavar="BYTES",
    help="Memory of this computer that a run may use, e.g. 4GiB (default: the free memory).",
    folder_values="none",
)
@machine_option(
    "--no-memory-limit",
    is_flag=True,
    help="Do not enforce the memory limits of simulated devices; --memory-limit, for this computer, still holds.",
    folder_values="none",
)
@machine_option("--no-fusion", is_flag=True, help="Execute every op separately, without fusion.")
@machine_option("--optimize/--no-optimize", default=None, help="Fold constants.")
@report_option(
    "--report-tensor-allocations-upon-oom",
    is_flag=True,
    help="If a device runs out of memory, list its tensors in the error, as TensorFlow does.",
)
@report_option(
    "--log-memory", is_flag=True, help="If a device runs out of memory, print TensorFlow's log of its memory to standard error."
)
@checkpoint_option(
    "--checkpoint-every",
    type=int,
    metavar="N",
    help="Save variables and other state as PREFIX-STEP every N steps and after the last step; requires --checkpoint PREFIX.",
)
@checkpoint_option("--checkpoint-keep", type=int, metavar="N", help="Number of checkpoints to keep; 0: all (default: 5).")
@checkpoint_option("--restart", is_flag=True, help="Continue from the newest checkpoint.")
@trace_option("executed kernels")
@cluster_option(
    "--engine",
    type=Word(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="local: execute in this process; dask: execute on Dask workers, which placesim starts on this computer unless "
    "--scheduler is given.",
)
@scheduler_options
@worker_options
@cluster_option(
    "--report",
    "performance",
    type=OutputFile(),
    metavar="FILE",
    help="Write Dask's performance report as an HTML page; needs Bokeh.",
)
@own_option("--no-execute", is_flag=True, help="Stop after placement.")
def run_command(
    graph: str,
    form: str,
    no_execute: bool,
    summary: bool,
    log_filters: tuple[str, ...],
    log_creation: bool,
    log_memory: bool,
    trace: str | None,
    performance: str | None,
    engine: str,
    **values: Any,
) -> int:
    """Place a graph, execute it with numpy, and print the results.

    GRAPH is a graph file, a GraphDef, a MetaGraph, an ONNX model, the directory of a SavedModel, a Python script, or - for
    standard input.  Without options, the settings of the file apply.  A script is executed as a program; its arguments
    follow --.

    \b
    Examples:
      placesim run graphs/logging.yaml --log-placement
      placesim run graphs/towers.yaml --gpu 4 --gpu-model 'Tesla K20m' --log-style classic
      placesim run model.yaml --fetch loss --feed 'x=[[1.0, 2.0]]' --feed y=@labels.npy
      placesim run train.py --gpu 2 --log-placement -- --steps 10
      placesim run model.yaml --report-tensor-allocations-upon-oom --log-memory
      placesim run saved_model/ --signature serving_default --feed x=@batch.npy
      generate-graph | placesim run - --format json | jq .results
      placesim run train.yaml --checkpoint out/model --checkpoint-every 10 --restart
      placesim run graphs/cluster.yaml --engine dask
      placesim run graphs/cluster.yaml --engine dask --scheduler tcp://10.0.0.1:8786 --worker /job:ps=10.0.0.1
    """
    is_local = engine == ENGINES[0]
    connection = take_connection(values)
    if is_local:
        _check_without_cluster()
    if no_execute:
        _check_nothing_executed(values, trace=trace, report=performance)
        from placesim.cli.commands.place import place_graphs

        values["log_placement"] = True
        return place_graphs([graph], form, given(values | {"feeds": ()}), summary, log_filters, log_creation)
    if log_filters and values["log_placement"] is None:
        values["log_placement"] = True
    if graph.endswith(".py") and is_local:
        from placesim.cli.script_runs import is_live, run_live

        if is_live(graph, form, values, summary=summary, log_memory=log_memory, trace=trace):
            return run_live(graph, given(values), log_filters, log_creation=log_creation)
    from placesim.cli.graph_arguments import load_graph
    from placesim.cli.output import tell, write_creation
    from placesim.cli.progress import TerminalProgress
    from placesim.cli.report_output import ReportWriter
    from placesim.report.report import Report

    options = in_shell(given(values))
    loaded = load_graph(graph, options)
    with (
        _measured(trace, performance) as measurements,
        nullcontext() if is_local else _sessions_on(connection, performance) as opened,
        TerminalProgress() as progress,
        ReportWriter(form, None, summary, log_filters, progress, write_creation if log_creation else None) as writer,
    ):
        outcome = _execute(loaded, options, progress, writer, summary, measurements, opened)
        for line in outcome.memory_log if log_memory else ():
            tell(f"{line.severity} {line.file}:{line.line}] {line.text}\n")
        writer.finish(Report.of(outcome))
    return outcome.error.exit_code if outcome.error is not None else 0


def _execute(
    loaded: LoadedGraph,
    options: SimulationOptions,
    progress: TerminalProgress,
    writer: ReportWriter,
    tells_memory: bool,
    measurements: Measurements | None,
    opened: Callable[..., GraphSession] | None,
) -> Outcome:
    """Execute the steps of a graph; the writer receives the results of each."""
    from placesim.cli.output import complain
    from placesim.core.escaping import escape_line
    from placesim.studies.simulation.simulation import SimulationStage, simulate

    def told(*counts: int) -> None:
        writer.settle()
        progress.update(*counts)

    outcome = simulate(
        loaded,
        options,
        SimulationStage.EXECUTED,
        told,
        writer,
        tells_memory=tells_memory,
        measurements=measurements,
        opened=opened,
        tell=lambda line: complain(f"{escape_line(line)}\n"),
    )
    progress.close()
    return outcome


def _check_nothing_executed(values: Mapping[str, Any], **files: str | None) -> None:
    """Raise UsageError for an option that needs the execution of the graph."""
    for what, path in files.items():
        if path is not None:
            raise UsageError(f"nothing to {what}: got --{what} with --no-execute, expected a graph that is executed")
    if values["checkpoint_every"] is not None or values["restart"]:
        raise UsageError("nothing to save: got --no-execute with checkpoints, expected a graph that is executed")


def _check_without_cluster() -> None:
    """Raise UsageError for an option that needs a cluster."""
    for word, option in typed_options().items():
        if option.name != "engine" and option.group == CLUSTER:
            raise UsageError(f"{word} without a cluster: expected --engine {ENGINES[1]} as well")


def _sessions_on(connection: Connection, performance: str | None) -> AbstractContextManager[Callable[..., GraphSession]]:
    """Return a factory of sessions on a cluster. It prints each device that is on another worker than requested."""
    from placesim.cli.output import write_files
    from placesim.runtime.dask.session_factory import open_cluster_sessions

    def tell(moved: DeviceMove) -> None:
        click.echo(f"{moved.device} lives in {moved.worker}", err=True)

    if performance is None:
        return open_cluster_sessions(connection, tell)
    path = Path(performance)
    return open_cluster_sessions(connection, tell, lambda page: write_files({path: [page.encode()]}))


@contextmanager
def _measured(trace: str | None, performance: str | None) -> Iterator[Measurements | None]:
    """Measure the run inside the block. The measurements are written even if the run fails, if at least one step began."""
    paths = [Path(path) for path in (trace, performance) if path is not None]
    if not paths:
        yield None
        return
    from placesim.cli.output import write_trace
    from placesim.core.process.interrupts import InterruptGrace
    from placesim.report.trace_json import events
    from placesim.studies.simulation.simulation import open_measurements

    measurements = open_measurements()
    try:
        yield measurements
    finally:
        if measurements.steps and trace is not None:
            with InterruptGrace():
                write_trace(Path(trace), events(measurements.records()))
