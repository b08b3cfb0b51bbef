"""Record the graph that a script builds, with the steps of the first session that runs something."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from placesim.core.errors import PlacesimError
from placesim.graph.session_steps import Config, Feed, Fetch, GraphFile, GraphStep
from placesim.machine.program_machine import current_machine, override_machines
from placesim.tf1.graphs import graph as graphs
from placesim.tf1.release import speak
from placesim.tf1.running.default_steps import default_steps, is_initialisation
from placesim.tf1.running.script_execution import answer, execute, exit_code, leave, replace_sources
from placesim.tf1.session import placement_log, watching

if TYPE_CHECKING:
    from placesim.tf1.graphs.graph import Graph


class _RecordedSession:
    """A session with its requested steps."""

    def __init__(self, session: watching.WatchedSession) -> None:
        self.graph: Graph = session.graph
        self.session = session
        self.steps: list[GraphStep] = []
        self.each_step: list[GraphStep] | None = []
        """The steps with their fed values; None once these exceed `MAX_FED_BYTES`."""
        self.fed_bytes = 0
        self.has_run = False

    def add(self, step: GraphStep) -> None:
        """Add a step.  If it has the last step's fetches and shapes, it counts as a repetition, whatever values are fed."""
        _append(self.steps, step, may_repeat=True)
        self.fed_bytes += sum(feed.value.nbytes for feed in step.feeds)
        if self.each_step is None or self.fed_bytes > MAX_FED_BYTES:
            self.each_step = None
        else:
            _append(self.each_step, step, may_repeat=not step.feeds)


def _append(steps: list[GraphStep], step: GraphStep, may_repeat: bool) -> None:
    if may_repeat and steps and _shape_of(steps[-1]) == _shape_of(step):
        steps[-1] = replace(steps[-1], repeat=steps[-1].repeat + 1)
    else:
        steps.append(step)


MAX_FED_BYTES = 2**28
"""Fed values are kept while all steps of a script feed no more bytes than this; an assumption."""


def _shape_of(step: GraphStep) -> tuple[Any, ...]:
    return step.fetches, tuple((feed.tensor, feed.value.shape) for feed in step.feeds)


class ScriptRecorder:
    """Watches a script's sessions.  Unless the job runs to the end, the process ends before it computes the first step."""

    def __init__(self, path: str, job: Mapping[str, Any]) -> None:
        self._path = path
        self._job = job
        self._sessions: list[_RecordedSession] = []
        self.computes: bool = job["until"] == "end"

    def opened(self, session: watching.WatchedSession) -> None:
        """A session was made."""
        self._sessions.append(_RecordedSession(session))

    def closed(self, session: watching.WatchedSession) -> None:
        """A session has ended."""

    def wants_step(self, session: watching.WatchedSession, elements: Sequence[Any], feeds: Mapping[Any, Any]) -> bool:
        """Record a step, and return whether to compute it.  The first step may end the process."""
        recorded = next(one for one in self._sessions if one.session is session)
        if not elements:
            return self.computes
        is_first = not (is_initialisation(elements) or watching.is_background())
        recorded.has_run |= is_first
        recorded.add(_step_of(elements, feeds))
        if is_first and not self.computes:
            self.finish(f"{self._path} has run up to its first step{_place(self._path)}")
            leave(0)
        return self.computes

    def finish(self, summary: str) -> None:
        """Send the parent process the recorded graph, or the error if it cannot be written."""
        try:
            from placesim.formats.script_graph import write_script_graph

            data = write_script_graph(self._file())
        except PlacesimError as error:
            from placesim.tf1.running.failures import describe

            answer(self._job, {"error": describe(error, self._path)})
            return
        answer(self._job, {"told": summary}, data)

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
            from placesim.studies.simulation.settings import build_machine_settings

            tasks, links = build_machine_settings(None, machine.options)
            return GraphFile(name, core, inventory=tasks, links=links, config=Config(), steps=default_steps(graph))
        opened = recorded.session._opened
        steps = tuple(recorded.steps) or default_steps(graph)
        each_step = tuple(recorded.each_step or ()) or None
        config, links = opened.config, opened.links
        return GraphFile(name, core, inventory=opened.tasks, links=links, config=config, steps=steps, each_step=each_step)

    def _chosen(self) -> _RecordedSession | None:
        """First session with a step other than initialization, else with any step, else with a graph; None if there is none."""
        found = [one for one in self._sessions if one.has_run]
        found += [one for one in self._sessions if one.steps]
        found += [one for one in self._sessions if len(one.graph.builder.graph)]
        return found[0] if found else None

    def _default_graph(self) -> Graph:
        """The default graph; if it is empty, the last non-empty one."""
        default = graphs.get_default_graph()
        if len(default.builder.graph):
            return default
        return next((graph for graph in reversed(graphs.kept or ()) if len(graph.builder.graph)), default)


def _step_of(elements: Sequence[Any], feeds: Mapping[Any, Any]) -> GraphStep:
    return GraphStep(
        tuple(Fetch(element.name) for element in elements), tuple(Feed(tensor.name, value) for tensor, value in feeds.items())
    )


def _place(path: str) -> str:
    """Running line of the script, as text."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            return f" (line {frame.f_lineno})"
        frame = frame.f_back
    return ""


def record(path: str, job: Mapping[str, Any]) -> None:
    """Run a script as far as the job says, and return its graph or its error."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # a window would wait until a user closes it
    graphs.kept = []
    graphs.Graph.records_scopes = True
    placement_log.is_silent = True
    override_machines(job["options"])
    speak(current_machine().options.release)
    recorder = ScriptRecorder(path, job)
    watching.watch(recorder)
    how = "to its end"
    try:
        if "sources" in job:
            replace_sources(json.loads(Path(job["sources"]).read_text(encoding="utf-8")))
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
        from placesim.tf1.running.failures import describe

        answer(job, {"error": describe(error, path)})
        leave(1)
    recorder.finish(f"{path} has run {how}{'; it has built no graph' if recorder.is_empty else ''}")
    leave(0)
