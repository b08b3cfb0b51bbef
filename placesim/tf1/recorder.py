"""A script's run -> the graph that it builds, with the steps of the first session that runs something."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from placesim.errors import PlacesimError
from placesim.graph.steps import Config, Feed, Fetch, GraphFile, Step
from placesim.machines import current_machine, override_machines
from placesim.tf1 import graph as graphs
from placesim.tf1.script_process import answer, execute, exit_code, leave
from placesim.tf1.session import placement_log, watching

if TYPE_CHECKING:
    from placesim.tf1.graph import Graph
    from placesim.tf1.session.sessions import BaseSession

INITIALISERS = frozenset(
    (
        "Assign",
        "AssignVariableOp",
        "InitializeTable",
        "InitializeTableV2",
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
        "LookupTableImport",
        "LookupTableImportV2",
        "MakeIterator",
    )
)
"""Ops that only give something its first value."""


class _Recorded:
    """A session, and the steps that it was asked for."""

    def __init__(self, session: BaseSession) -> None:
        self.graph: Graph = session.graph
        self.session = session
        self.steps: list[Step] = []
        self.has_run = False

    def add(self, step: Step) -> None:
        """The next step; one like the last is a repetition of it, whatever is fed."""
        last = self.steps[-1] if self.steps else None
        if last is not None and _shape_of(last) == _shape_of(step):
            self.steps[-1] = replace(last, repeat=last.repeat + 1)
        else:
            self.steps.append(step)


def _shape_of(step: Step) -> tuple[Any, ...]:
    return step.fetches, tuple((feed.tensor, feed.value.shape) for feed in step.feeds)


class Recorder:
    """Watches sessions; up to the first step nothing is computed, and that step ends the process."""

    def __init__(self, path: str, job: Mapping[str, Any]) -> None:
        self._path = path
        self._job = job
        self._sessions: list[_Recorded] = []
        self.computes: bool = job["until"] == "end"

    def opened(self, session: BaseSession) -> None:
        """A session was made."""
        self._sessions.append(_Recorded(session))

    def closed(self, session: BaseSession) -> None:
        """A session has ended."""

    def wants_step(self, session: BaseSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
        """Whether to compute a step: never up to the first, in the middle of which the process ends."""
        recorded = next(one for one in self._sessions if one.session is session)
        if not elements:
            return self.computes
        is_first = not is_initialisation(elements)
        recorded.has_run |= is_first
        recorded.add(_step_of(elements, feeds))
        if is_first and not self.computes:
            self.finish(f"{self._path} has run up to its first step{_place(self._path)}")
            leave(0)
        return self.computes

    def finish(self, told: str) -> None:
        """Give back the graph as it is now."""
        try:
            from placesim.formats.script_graph import write_script_graph

            data = write_script_graph(self._file())
        except PlacesimError as error:
            from placesim.tf1.failures import describe

            answer(self._job, {"error": describe(error, self._path)})
            return
        answer(self._job, {"told": told}, data)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was built."""
        recorded = self._chosen()
        return not len((self._default_graph() if recorded is None else recorded.graph).builder.graph)

    def _file(self) -> GraphFile:
        recorded = self._chosen()
        graph = self._default_graph() if recorded is None else recorded.graph
        core = graph.builder.graph
        core.file = self._path
        name = PurePath(self._path).stem
        if recorded is None:
            machine = current_machine()
            from placesim.simulation import machine_of

            tasks, links = machine_of(None, machine.options)
            return GraphFile(name, core, inventory=tasks, links=links, config=Config())
        opened = recorded.session._opened
        steps = tuple(recorded.steps) or None
        return GraphFile(name, core, inventory=opened.tasks, links=opened.links, config=opened.config, steps=steps)

    def _chosen(self) -> _Recorded | None:
        """The first session that ran something, else one that was asked for something, else one that has a graph."""
        found = [one for one in self._sessions if one.has_run]
        found += [one for one in self._sessions if one.steps]
        found += [one for one in self._sessions if len(one.graph.builder.graph)]
        return found[0] if found else None

    def _default_graph(self) -> Graph:
        """The default graph, where it is empty the last one that is not."""
        default = graphs.get_default_graph()
        if len(default.builder.graph):
            return default
        return next((graph for graph in reversed(graphs.kept or ()) if len(graph.builder.graph)), default)


def is_initialisation(elements: Sequence[Any]) -> bool:
    """Whether a step only gives variables, tables and iterators their first values, by operations alone."""
    waiting = list(elements)
    seen: set[int] = set()
    while waiting:
        operation = waiting.pop()
        if not hasattr(operation, "node"):
            return False
        if operation.node.id in seen:
            continue
        seen.add(operation.node.id)
        if operation.type == "NoOp":
            waiting += operation.control_inputs
        elif operation.type not in INITIALISERS:
            return False
    return True


def _step_of(elements: Sequence[Any], feeds: Mapping[Any, Any]) -> Step:
    return Step(
        tuple(Fetch(element.name) for element in elements), tuple(Feed(tensor.name, value) for tensor, value in feeds.items())
    )


def _place(path: str) -> str:
    """The line of the script that is being run."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            return f" (line {frame.f_lineno})"
        frame = frame.f_back
    return ""


def record(path: str, job: Mapping[str, Any]) -> None:
    """Run a script as far as the job says, and answer with what it built, or with what became of it."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # a window would wait for somebody to close it
    graphs.kept = []
    placement_log.is_silent = True
    override_machines(job["options"])
    recorder = Recorder(path, job)
    watching.watch(recorder)
    how = "to its end"
    try:
        execute(path)
    except SystemExit as error:
        code, text = exit_code(error)
        sys.stderr.write(text)
        how += f", which was exit code {code}" if code else ""
        if code and recorder.is_empty:
            leave(code)
    except KeyboardInterrupt:
        leave(130)
    except BaseException as error:
        from placesim.tf1.failures import describe

        answer(job, {"error": describe(error, path)})
        leave(1)
    recorder.finish(f"{path} has run {how}{'; it has built no graph' if recorder.is_empty else ''}")
    leave(0)
