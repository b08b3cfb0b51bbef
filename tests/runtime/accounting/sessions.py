"""Sessions whose memory is accounted for: every graph that the tests know how to run, with its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError
from placesim.core.files.access import FileAccess
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.formats.sources.loading import load
from placesim.graph.session_steps import Fetch, GraphFile, GraphStep
from placesim.machine.inventory import Device, TaskInventory, build_devices
from placesim.machine.memory.buffer_sources import DeviceSource
from placesim.machine.options import make_options
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.accounting.ledger_setup import build_ledger
from placesim.runtime.dry_runs.dry_run_feeds import FeedShapes
from placesim.runtime.partitioning.step_requests import default_fetches
from placesim.runtime.sessions.session import GraphSession
from tests.runtime.sessions.models import NO_KERNEL, ORDERED, feeds_of, initializers

GRAPHS = Path(__file__).parents[3] / "graphs"


class Scenario(NamedTuple):
    """A graph, and the steps that are run on it one after the other.

    `is_repeatable`: the last step changes nothing that outlives it but values, so that it may be run twice.
    """

    name: str
    file: GraphFile
    steps: tuple[GraphStep, ...]
    bare_fetch_is_target: bool = False
    is_repeatable: bool = False


class StepRecord(NamedTuple):
    """What is known after a step: its values and targets or its error, and by device what is in use and what the most was."""

    values: Sequence[Any]
    targets: Sequence[str]
    error: str
    in_use: Mapping[str, int]
    peaks: Mapping[str, int]
    left_over: Sequence[str]


def model_scenario(case: Mapping[str, Any]) -> Scenario:
    """A recorded model: its initializers, what must run in turn, and then all the rest of it."""
    file = graph_file_from_mapping(case["graph"], case["id"])
    graph, feeds = file.graph, feeds_of(file.graph)
    first = initializers(graph)
    steps = [GraphStep(tuple(map(Fetch, names)), feeds) for names in ([first] if first else [])]
    steps += [GraphStep((Fetch(name),), feeds) for name in ORDERED.get(case["id"], [])]
    done = {*first, *ORDERED.get(case["id"], [])}
    rest = [found.name for found in default_fetches(graph, only_targets=True)]
    rest = [name for name in rest if name not in done and graph.node(name).op not in NO_KERNEL]
    steps.append(GraphStep(tuple(map(Fetch, rest)), feeds))
    return Scenario(case["id"], file, tuple(steps), True, case["id"] not in ORDERED)


def session_scenario(case: Mapping[str, Any]) -> Scenario:
    """A recorded session of several steps."""
    steps = tuple(GraphStep(tuple(map(Fetch, step["fetch"])), ()) for step in case["steps"])
    return Scenario(case["id"], graph_file_from_mapping(case["graph"], case["id"]), steps, True)


def file_scenario(path: Path) -> Scenario:
    """A graph file with its own steps."""
    file = load(path, None, make_options({})).file
    assert file is not None
    steps = (GraphStep(),) if file.steps is None else file.steps
    return Scenario(path.stem, file, tuple(step for step in steps for _ in range(step.repeat)), is_repeatable=True)


def play(
    scenario: Scenario,
    directory: Path,
    ledger: Ledger | None = None,
    *,
    is_walked: bool = False,
    is_repeated: bool = False,
) -> Iterator[StepRecord]:
    """The steps of a scenario, each as it ends; with `is_repeated` the last one twice, where it may be."""
    session = GraphSession(
        scenario.file.graph,
        machine_of(scenario),
        scenario.file.config,
        bare_fetch_is_target=scenario.bare_fetch_is_target,
        directory=directory,
        initial_values=scenario.file.initial_values,
        files=FileAccess.of([GRAPHS], [directory]),
        ledger=ledger,
        sketched=FeedShapes() if is_walked else None,
    )
    sources = {} if ledger is None else named_sources(ledger)
    for step in (*scenario.steps, *scenario.steps[-1:] * (is_repeated and scenario.is_repeatable)):
        if step.nodes:
            session.extend(step.nodes)
        values: Sequence[Any] = ()
        targets: Sequence[str] = ()
        text = ""
        for source in sources.values():
            source.forget_peak()
        if ledger is not None:
            ledger.left_over = ()
        try:
            result = session.run(step)
            values, targets = [value.value for value in result.values], result.targets
        except PlacesimError as error:
            text = f"{error.type_name}: {error.message}"
        yield StepRecord(
            values,
            targets,
            text,
            {name: source.in_use for name, source in sources.items()},
            {name: source.peak for name, source in sources.items()},
            [] if ledger is None else [f"{b.owner} {b.size} held {b.holders}" for b in ledger.left_over],
        )


def machine_of(scenario: Scenario) -> Sequence[Device]:
    return build_devices(scenario.file.inventory or (TaskInventory(),))


def ledger_of(scenario: Scenario) -> Ledger:
    return build_ledger(machine_of(scenario))


def named_sources(ledger: Ledger) -> dict[str, DeviceSource]:
    """The memory of each device, and that of the hosts of devices whose CPU is not simulated."""
    found = dict(ledger.sources)
    others = [source for source in ledger.all_sources() if source not in found.values()]
    return found | {f"host {number}": source for number, source in enumerate(others)}
