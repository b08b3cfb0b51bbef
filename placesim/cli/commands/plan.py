"""`placesim plan`."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from placesim.cli.cluster_options import scheduler_options, take_connection
from placesim.cli.command import command, current_settings
from placesim.cli.option_types import Word, option, own_option
from placesim.cli.options import (
    feed_option,
    file_access_options,
    given,
    graph_options,
    guess_options,
    in_shell,
    link_option,
    output_option,
    page_option,
    profile_option,
    size_options,
    take_record,
    top_option,
)
from placesim.cli.output_forms import (
    Form,
    Target,
    check_page_file,
    form_option,
    table_forms,
    table_option,
    take_target,
    write_target,
)
from placesim.cli.progress import close_bar, show_stages
from placesim.core.errors import UsageError
from placesim.core.process.interrupts import InterruptGrace

if TYPE_CHECKING:
    from placesim.formats.sources.loading import LoadedGraph
    from placesim.machine.options import SimulationOptions
    from placesim.planning.graphs.plan_comparison import PlanMeasure, PlanStudy
    from placesim.planning.portfolio import PlanResult
    from placesim.report.text.tables import Tables, TabLines

AUTO = "auto"
OBJECTIVES = ("latency", "throughput", "memory")
SECONDS = 30.0
TOP = 10
MAX_EVALUATIONS = 1 << 40
MAX_CHANGES = 1000


def _text(study: PlanStudy, top: int) -> TabLines:
    from placesim.report.text.planning import plan_lines

    return plan_lines(study, top)


def _json(study: PlanStudy, top: int) -> str:
    from placesim.report.document import json_line
    from placesim.report.text.planning import plan_document

    return json_line(plan_document(study))


def _tables(study: PlanStudy, top: int) -> Tables:
    from placesim.report.text.planning import TABLES, plan_tables
    from placesim.report.text.tables import Tables

    document = plan_tables(study)
    return Tables(TABLES, lambda: document, top)


FORMS: tuple[Form[Any], ...] = (Form("text", _text), Form("json", _json), *table_forms(_tables))
EXITS = {
    0: "a plan was found",
    1: "nothing fits the devices' memory, or TensorFlow would refuse the graph",
    2: "sizes or options are wrong",
    130: "interrupted: the best plan so far is printed and written",
}


@command("plan", exits=EXITS)
@click.argument("graph")
@size_options()
@guess_options
@link_option
@profile_option
@feed_option
@own_option(
    "--free",
    multiple=True,
    metavar="PATTERN",
    help="Let these nodes leave the device they request. PATTERN: a name, a scope/ or a shell pattern (repeatable).",
    completes="nodes",
)
@own_option("--free-all", is_flag=True, help="Let all nodes leave the device they request.")
@own_option(
    "--objective",
    type=Word(OBJECTIVES),
    default=OBJECTIVES[0],
    show_default=True,
    help="latency: shortest step; throughput: lowest load of the busiest device (steps overlap); memory: lowest memory peak.",
)
@own_option(
    "--apart",
    multiple=True,
    metavar="PATTERN",
    help="No two colocation groups with a node that matches PATTERN share a device. PATTERN: a name, a scope/ or a "
    "pattern (repeatable).",
    completes="nodes",
)
@own_option(
    "--contiguous", "needs_contiguous", is_flag=True, help="For throughput: no path may leave a device and return to it."
)
@own_option(
    "--by",
    type=Word(("scope", "node")),
    help="scope: choose a device for each name scope as a whole (default if there are scopes); node: for each "
    "colocation group.",
)
@own_option(
    "--changes",
    type=click.IntRange(0, MAX_CHANGES),
    metavar="N",
    help="Find the best plan with at most N edits: devices for scopes or, with --by node, for nodes.",
)
@own_option(
    "--without",
    multiple=True,
    metavar="DEVICE",
    help="Keep nodes off a device or all devices of a type, such as GPU:1 or CPU. Nodes that need the device "
    "stay (repeatable).",
    completes="devices",
)
@own_option(
    "--method",
    default=AUTO,
    show_default=True,
    metavar="NAME",
    help="Use one method; latency: list, dispatch, move, exact, exhaustive, layers (large graphs, short memory), fit (short "
    "memory); throughput: cut, closed-sets, anneal, exact; memory: anneal, exact.",
    completes="methods",
)
@own_option(
    "--explain",
    "explains",
    is_flag=True,
    help="Show the loss of each moved group: how much worse the plan would be without this move.",
)
@own_option(
    "--seconds",
    type=click.FloatRange(0, 86400, min_open=True),
    metavar="SECONDS",
    default=SECONDS,
    show_default=True,
    help="Time limit of the search, after the dry run.",
)
@own_option(
    "--evaluations",
    type=click.IntRange(1, MAX_EVALUATIONS),
    metavar="N",
    help="Stop each process after N evaluations, not after --seconds, so that the same --seed gives the same plan.",
)
@own_option("--seed", type=click.IntRange(0, (1 << 31) - 1), default=0, metavar="N", help="Random seed (default: 0).")
@option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    default=2,
    show_default=True,
    help="Number of search processes.",
    folder_values="none",
)
@own_option(
    "--strategies",
    "compares",
    is_flag=True,
    help="Compare training strategies on 1, 2, 4, ... GPUs.",
)
@own_option(
    "--split",
    multiple=True,
    metavar="NAME",
    help="For --strategies: tensor that holds the batch (repeatable).",
    completes="nodes",
)
@own_option(
    "--examples", type=click.IntRange(1), metavar="N", help="For --strategies: examples per step (default: the batch size)."
)
@own_option(
    "--scale-batch",
    "scales_batch",
    is_flag=True,
    help="For --strategies: multiply --batch by the number of devices.",
)
@own_option(
    "--price",
    type=click.FloatRange(0, min_open=True),
    metavar="DOLLARS",
    help="For --strategies: dollars per hour for one device.",
)
@top_option(TOP, "moved groups to list")
@graph_options
@scheduler_options
@file_access_options
@form_option(FORMS, "Output format (default: text).")
@table_option("placements", "moves", "devices", "edits", "curve")
@output_option(
    "Write the graph with the plan's devices (.yaml, .json, .pb, .pbtxt, .onnx), a device function (.py), or a script's patch "
    "(.patch, .diff)."
)
@page_option("Write an HTML page that compares the plan with the original placement: timelines, memory and moved nodes.")
def plan_command(
    graph: str,
    free: tuple[str, ...],
    free_all: bool,
    objective: str,
    top: int,
    output: str | None,
    html: str | None,
    compares: bool,
    **values: Any,
) -> int:
    """Search for the best placement of a graph, and compute a bound that no placement can beat.

    The best placement has the shortest step, or the best value of --objective.

    GRAPH is any graph that `run` reads.  A plan respects kernels, colocation groups, memory limits and requested devices
    (unless freed).  It is simulated and compared with other placements: TensorFlow's placement with and without the graph's
    device requests, all nodes on one device, and round robin.  The output graph is the input with as few
    changed device requests as possible.

    --strategies simulates several variants of a training graph: on one device, placed by a plan, and rewritten as by
    `parallelize` (data parallelism, pipelines, recomputation).  The output is the graph of the fastest strategy that fits.

    \b
    Examples:
      placesim plan graphs/cifar10-towers.yaml --free-all --soft-placement
      placesim plan model.pb --fetch loss --batch 64 --gpu 4 --output planned.pb
      placesim plan model.yaml --seconds 5 --format json | jq .gap
      placesim plan model.yaml --html plan.html
      placesim plan model.yaml --scheduler tcp://10.0.0.1:8786
      placesim plan model.yaml --strategies --gpu 8 --output fastest.yaml
    """
    from placesim.cli.graph_arguments import graph_name, load_graph
    from placesim.cli.output import complain, tell
    from placesim.planning.graphs.plan_comparison import Aim, PlanMeasure
    from placesim.planning.graphs.problem_building import OBJECTIVES as OBJECTIVES_OF_PLANS
    from placesim.planning.portfolio import Effort, check_method
    from placesim.planning.search_processes import spread
    from placesim.studies.plan_files import check_ending, check_source
    from placesim.studies.plan_study import study_plan

    connection = take_connection(values)
    settings = {name: values.pop(name) for name in ("split", "examples", "scales_batch", "price")}
    _check_comparison(settings, compares, output)
    if output is not None:
        check_ending(Path(output))
    target = take_target(FORMS, values)
    effort = take_record(values, Effort)
    aim = take_record(values, Aim, sought=PlanMeasure(objective), is_traced=html is not None)
    options = in_shell(given(values))
    check_method(effort.method, objective=OBJECTIVES_OF_PLANS[aim.sought])
    check_page_file(html)
    patterns = ("*",) if free_all else free
    loaded = load_graph(graph, options)
    if compares:
        from placesim.cli.strategy_comparison import compare
        from placesim.studies.strategy_study import StrategyRequest

        request = StrategyRequest(effort, aim, free=patterns, **settings)
        return compare(loaded, options, graph_name(graph), request, connection, target, output, html)
    if output is not None:
        check_source(loaded, Path(output))
    # after Ctrl-C, the best plan so far is reported and written
    with spread(effort, connection) as effort, InterruptGrace():
        limit = effort.seconds if effort.evaluations is None else None
        try:
            with _BestPlanLine(limit, aim.sought) as best, show_stages("building the problem"):
                study = study_plan(loaded, options, graph_name(graph), effort, patterns, best.show, aim)
        except KeyboardInterrupt:
            tell(f"interrupted: no plan was found yet, {_unwritten(output, html)}\n")
            raise
        _tell(study, target, top, output)
        if aim.changes is not None and study.plan is not None and not study.curve:
            complain(f"{_beyond(study, aim.changes)}\n")
        if html is not None:
            _write_page(study, html)
        if study.plan is None:
            return 130 if study.is_interrupted else 1
        if output is not None:
            _write_graph(study, loaded, options, patterns, Path(output))
        return 130 if study.is_interrupted else 0


def _check_comparison(settings: dict[str, Any], compares: bool, output: str | None) -> None:
    """Raise UsageError for settings without --strategies, for a wrong price, and for a file of another format."""
    names = {"split": "--split", "examples": "--examples", "scales_batch": "--scale-batch", "price": "--price"}
    given = [names[key] for key, value in settings.items() if value not in (None, False, ())]
    if given and not compares:
        raise UsageError(f"options without --strategies: got {', '.join(given)}, expected --strategies as well")
    if settings["price"] is not None and not settings["price"] < float("inf"):
        raise UsageError(f"wrong price: got {settings['price']}, expected a number of dollars")
    if compares and output is not None:
        from placesim.studies.strategy_study import check_ending

        check_ending(Path(output))


def _tell(study: PlanStudy, target: Target, top: int, output: str | None) -> None:
    from placesim.cli.output import complain, tell, write

    if target.is_for_reader:
        from placesim.report.terminal.planning import styled_plan

        write(styled_plan(study, sys.stdout, top, output), is_styled=True)
    else:
        write_target(FORMS, target, study, top)
    if study.plan is None and study.is_interrupted:
        tell(f"interrupted: no plan that fits was found yet, {_unwritten(output)}\n")
    elif study.plan is None:
        from placesim.report.text.planning import suggest_remedy

        tell(f"no plan fits: {suggest_remedy(study)}\n")
    elif not (study.movable or study.moves):
        complain(f"nothing to search: {_why_fixed(study)}\n")


def _beyond(study: PlanStudy, changes: int) -> str:
    """Return a sentence about a plan that is reported although it needs more edits than were allowed."""
    edits, nodes = ("edit" if changes == 1 else "edits"), ("node" if len(study.asked) == 1 else "nodes")
    asked = f"this plan requests devices for {len(study.asked):,} {nodes}"
    return f"no plan with at most {changes} {edits} was found that fits: {asked}, and a larger `--changes` may be enough"


def _unwritten(*paths: str | None) -> str:
    named = [path for path in paths if path is not None]
    return f"and {' and '.join(named)} not written" if named else "and nothing is written"


class _BestPlanLine:
    """A line on the terminal's standard error with the best plan so far, the elapsed time and the remaining time.

    It replaces the progress bar when the first plan is found, and is erased at the end. `limit` is the time limit of the search
    in seconds.
    """

    def __init__(self, limit: float | None, sought: PlanMeasure) -> None:
        self._limit = limit
        self._sought = sought
        self._is_shown = sys.stderr.isatty() and not current_settings().quiet
        self._text = ""
        self._began = 0.0
        self._ended = Event()

    def __enter__(self) -> _BestPlanLine:
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        if self._began:
            self._write("")

    def show(self, planned: PlanResult) -> None:
        """Show the best plan. The search calls this with each better plan and each better bound."""
        if planned.plan is None or not self._is_shown:
            return
        from placesim.report.text.planning import format_best

        self._text = f"{format_best(self._sought, planned)}; Ctrl-C keeps it"
        if not self._began:
            close_bar()
            self._began = time.monotonic()
            Thread(target=self._tick, name="placesim-best", daemon=True).start()
        self._say()

    def _tick(self) -> None:
        while not self._ended.wait(1.0):
            self._say()

    def _say(self) -> None:
        from placesim.report.terminal.progress_bar import readable_time

        gone = time.monotonic() - self._began
        left = "" if self._limit is None else f", {readable_time(max(0.0, self._limit - gone))} left"
        self._write(f"{readable_time(gone)}{left}: {self._text}")

    def _write(self, text: str) -> None:
        # a line that is wider than the terminal could not be erased
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()


def _why_fixed(study: PlanStudy) -> str:
    if not study.is_held:
        return "each group of nodes has kernels for only one device"
    return "every node that could move has an explicit device; release them with `--free PATTERN` or `--free-all`"


def _write_page(study: PlanStudy, html: str) -> None:
    from placesim.cli.output import write_files
    from placesim.report.pictures.comparison_page import plan_page

    page = plan_page(study)
    if page is not None:
        write_files({Path(html): [page.encode()]})


def _write_graph(
    study: PlanStudy, loaded: LoadedGraph, options: SimulationOptions, patterns: tuple[str, ...], output: Path
) -> None:
    from placesim.cli.output import complain, write_files
    from placesim.studies.plan_files import write_planned_content

    told: list[str] = []
    write_files({output: write_planned_content(loaded, options, study, patterns, output, told.append)})
    for text in told:
        complain(f"{text}\n")
