"""Search for a plan of a state. It reports events, and returns the plan as edits of the state.

Several searches have growing shares of the seconds, so that a first plan is known early.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from placesim.graph.node_patterns import enclosing_scopes
from placesim.inspection.difference import compare
from placesim.inspection.short_device_names import short_names
from placesim.machine.inventory import DeviceSet
from placesim.planning.graphs.plan_annotations import devices_by_name
from placesim.planning.graphs.plan_comparison import ANNOTATED, DEFAULT, Aim, PlanStudy
from placesim.planning.graphs.requests_by_name import request_words
from placesim.planning.portfolio import Effort, PlanResult
from placesim.planning.search_processes import spread
from placesim.report.text.planning import suggest_remedy
from placesim.runtime.cluster.connection_settings import Connection
from placesim.studies.plan_functions import plan_requests
from placesim.studies.plan_study import study_plan
from placesim.studies.studio.messages import FoundEdit, FoundPlan, PlanProgress, Search, State
from placesim.studies.studio.source import StudioSource
from placesim.studies.studio.studio import Studio

SHARES = (0.1, 0.3, 0.6)
"""Shares of the seconds of the successive searches."""
PROGRESS, BEST, END = "plan-progress", "plan-best", "plan-done"


class PlanEvent(NamedTuple):
    """An event for the page: its name, and its data as in `messages`."""

    name: str
    data: Mapping[str, Any]


class PlanTask(NamedTuple):
    """A search for a plan of a state."""

    source: StudioSource
    state: State
    search: Search


NO_PLAN = FoundPlan(base=None, edits=[], value=None, before=None, bound=0.0, is_interrupted=False, note="")


class StudioPlanner:
    """The search of a task. `tell` receives events: the progress, and each better plan."""

    def __init__(self, task: PlanTask, tell: Callable[[PlanEvent], object]) -> None:
        self._task = task
        self._tell = tell
        self._best = NO_PLAN
        self._began = time.monotonic()
        self._studio = Studio(task.source)
        devices = self._studio.snapshot(task.state).devices
        self._words = request_words(DeviceSet(devices))
        self._full = dict(zip(short_names(list(self._words)), self._words, strict=True))

    def plan(self) -> FoundPlan:
        """Return the best plan. An interrupt ends the search early. Raises the errors of the graph and the options."""
        source, state, search = self._task
        graph = source.graph(state)
        for number, share in enumerate(SHARES):
            with spread(Effort(seconds=search["seconds"] * share, seed=number), Connection(None)) as effort:
                study = study_plan(graph.loaded, graph.options, source.path, effort, search["free"], self._report, Aim(by=None))
            found = self._found(study)
            if _value(found) < _value(self._best) or not number:
                self._best = found
                self._tell(PlanEvent(BEST, found))
            bound = max(self._best["bound"], study.bound.value)
            self._best = FoundPlan(**{**self._best, "bound": bound, "is_interrupted": study.is_interrupted})
            if study.is_interrupted or study.is_optimal:
                break
        return self._best

    def _report(self, planned: PlanResult) -> None:
        value = min(_value(self._best), math.inf if planned.plan is None else planned.plan.value)
        seconds, limit = time.monotonic() - self._began, self._task.search["seconds"]
        bound = max(self._best["bound"], planned.bound.value)
        data = PlanProgress(seconds=seconds, limit=limit, value=value if math.isfinite(value) else None, bound=bound)
        self._tell(PlanEvent(PROGRESS, data))

    def _found(self, study: PlanStudy) -> FoundPlan:
        seconds = {row.label: row.seconds for row in study.placements}
        before = seconds.get(ANNOTATED, seconds.get(DEFAULT, math.inf))
        found = FoundPlan(**{**NO_PLAN, "bound": study.bound.value, "before": before if math.isfinite(before) else None})
        if study.plan is None:
            return FoundPlan(**{**found, "note": f"no plan fits: {suggest_remedy(study)}"})
        _, state, search = self._task
        if study.value >= before:
            return FoundPlan(**{**found, "base": state, "value": before})
        dropped = [[pattern, ""] for pattern in search["free"]]
        base = State(**{**state, "devices": [*state["devices"], *dropped]})
        edits = next((way for way in self._ways(study) if self._leads(base, way, study)), None)
        if edits is None:
            note = "the plan needs devices that edits of this graph cannot express"
            return FoundPlan(**{**found, "note": note})
        moves = self._moves(_planned(base, edits))
        if len(moves) <= len(edits) and self._leads(state, moves, study):
            base, edits = state, moves
        return FoundPlan(**{**found, "base": base, "edits": edits, "value": study.value})

    def _moves(self, planned: State) -> list[FoundEdit]:
        """Return the nodes and scopes that a plan moves, as edits of the task's state."""
        short = {full: name for name, full in self._full.items()}
        difference = compare(self._studio.snapshot(self._task.state), self._studio.snapshot(planned))
        return [
            FoundEdit(
                title=move.name, nodes=move.nodes, device=short[move.after], devices=[[move.name, self._words[move.after]]]
            )
            for move in difference.folded
        ]

    def _ways(self, study: PlanStudy) -> Iterator[list[FoundEdit]]:
        """Yield three forms of the plan: devices of scopes, requests of nodes grouped by scope, and requests of nodes."""
        rows = sorted(study.edits, key=lambda edit: 0 if edit.path == "*" else len(edit.path))
        paths = {path: edit for edit in rows for path in (edit.path, *edit.gradients)}
        by_scope: dict[str, list[list[str]]] = {edit.path: [] for edit in rows}
        alone: dict[str, list[list[str]]] = {}
        for node, device in study.asked.items():
            around = ("*", *enclosing_scopes(f"{node}/"), node)
            edit = next((paths[path] for path in reversed(around) if path in paths), None)
            pair = [node, self._words[device]]
            (alone.setdefault(node, []) if edit is None else by_scope[edit.path]).append(pair)
        if rows:
            yield [
                FoundEdit(
                    title=edit.title,
                    nodes=edit.nodes,
                    device=edit.device,
                    devices=[[path, self._word(edit.device)] for path in (edit.path, *edit.gradients)],
                )
                for edit in rows
            ]
            yield [
                *(
                    FoundEdit(title=edit.title, nodes=edit.nodes, device=edit.device, devices=by_scope[edit.path])
                    for edit in rows
                    if by_scope[edit.path]
                ),
                *self._single(alone, study),
            ]
        yield list(self._single({node: [[node, self._words[device]]] for node, device in study.asked.items()}, study))

    def _single(self, pairs: Mapping[str, list[list[str]]], study: PlanStudy) -> Iterator[FoundEdit]:
        short = {full: name for name, full in self._full.items()}
        for node, devices in pairs.items():
            yield FoundEdit(title=node, nodes=1, device=short[study.asked[node]], devices=devices)

    def _word(self, short: str) -> str:
        return self._words[self._full[short]]

    def _leads(self, base: State, edits: list[FoundEdit], study: PlanStudy) -> bool:
        """Whether all nodes are placed as planned if all of these edits are made."""
        live = self._studio.snapshot(_planned(base, edits)).live
        if live is None or live.placement is None or live.placement.error is not None:
            return False
        where = devices_by_name(live.placement)
        places = plan_requests(study, ()).places
        return all(where[node] in devices for node, devices in places.items() if node in where)


def _planned(base: State, edits: list[FoundEdit]) -> State:
    """Return the base with all edits."""
    pairs = [pair for edit in edits for pair in edit["devices"]]
    return State(**{**base, "devices": [*base["devices"], *pairs]})


def _value(found: FoundPlan) -> float:
    return math.inf if found["value"] is None else found["value"]
