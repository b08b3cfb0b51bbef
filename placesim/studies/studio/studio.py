"""Answers about a graph and a machine that a page edits: placement, moves with reasons, and step time.

The page sends its whole state with each question. Graphs and placements of recent states are cached.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from placesim.core.errors import GraphFileError, Location, PlacesimError, UsageError
from placesim.core.process.gc_pause import collector_paused
from placesim.core.styled_text import StyledText
from placesim.inspection.difference import ScopeMove, compare
from placesim.inspection.explaining.annotations import AnnotationKind
from placesim.inspection.explaining.edits import AnnotationChange, DeviceAddition, HardwareAddition, SoftPlacementSwitch
from placesim.inspection.explaining.inquiry import Inquiry
from placesim.inspection.explaining.paragraphs import NODE, Paragraphs
from placesim.inspection.explaining.proof import Proof
from placesim.inspection.explaining.trials import Trial
from placesim.inspection.memory_categories import MemoryCategories
from placesim.inspection.picturing.edits import NODE_BUDGET
from placesim.inspection.picturing.picture import picture_of
from placesim.inspection.short_device_names import short_names
from placesim.inspection.snapshot import Snapshot, snapshot_of
from placesim.machine.device_names import parse_runtime_name
from placesim.machine.inventory import Device, DeviceSet
from placesim.planning.graphs.requests_by_name import request_words
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.pictures.page_data import page_document
from placesim.report.pictures.timing_data import MAX_SPANS, Texts, lanes_document, span_count
from placesim.report.text.complaint import format_error, format_outcome_error
from placesim.report.text.explanation import brief_reason, trial_text
from placesim.studies.graph_summary import ask
from placesim.studies.memory_study import find_peaks
from placesim.studies.simulation.settings import build_machine_settings, session_config
from placesim.studies.simulation.simulation import SimulationStage, simulate
from placesim.studies.studio.messages import (
    Answer,
    Changes,
    DeviceFacts,
    DevicePeak,
    Explanation,
    FileProblem,
    Measure,
    Measured,
    Move,
    PlacementError,
    State,
    StepTime,
    Suggestion,
    TransferChange,
)
from placesim.studies.studio.source import GRAPH_FILE, EditedGraph, RecentValues, StudioSource
from placesim.studies.time_study import study_time

MAX_REASONS = 100
"""Maximum number of moves with reasons, which take longer than the moves."""
REASON_NODES = 8
"""Maximum number of nodes of a moved scope whose reasons are compared."""


class _Placed(NamedTuple):
    """The placement of a state. `error` is None if the graph was placed."""

    graph: EditedGraph
    snapshot: Snapshot
    error: PlacementError | None

    def reason(self, proof: Proof) -> str:
        """Return the reason for a node's device in one line.

        An edit of the node takes precedence over the reason of its group.
        """
        edit = self.graph.edit_of(proof.node)
        wanted, device = parse_runtime_name(proof.requested), parse_runtime_name(proof.device or "")
        if edit is not None and proof.requested and wanted is not None and device is not None and wanted.matches(device):
            return f"requested {proof.requested} by the edit of {edit}"
        return str(brief_reason(proof))


class _Simulated(NamedTuple):
    """The simulation of a state; `note` says why there is none."""

    study: TimeStudy | None
    memory: list[DevicePeak]
    note: str


class Studio:
    """The answers about a source. All methods raise the errors of the state's file and options, except `answer`."""

    def __init__(self, source: StudioSource) -> None:
        self.source = source
        self._placed = RecentValues[_Placed]()
        self._simulated = RecentValues[_Simulated]()

    # --- placements

    @collector_paused()
    def answer(self, number: int, state: State, baseline: State | None = None, *, explains: bool = False) -> Answer:
        """Return the placement of a state, and the moves since the baseline. With `explains`, it has all proofs."""
        began = time.monotonic()
        answer = Answer(
            id=number,
            problems=[],
            error=None,
            warnings=[],
            picture=None,
            settings={},
            devices=[],
            edits=[],
            changes=None,
            seconds=0.0,
        )
        try:
            placed = self._place(state)
        except PlacesimError as error:
            answer["problems"] = problems_of(error)
        else:
            snapshot = placed.snapshot
            answer["error"] = placed.error
            answer["warnings"] = list(snapshot.warnings)
            answer["picture"] = page_document(picture_of(snapshot), explains=explains)
            answer["settings"] = _settings(placed.graph, state)
            answer["devices"] = list(_device_facts(snapshot))
            answer["edits"] = placed.graph.edits
            answer["changes"] = self._changes(baseline, placed)
        answer["seconds"] = time.monotonic() - began
        return answer

    def check_start(self) -> None:
        """Raise the error of a start that no edit on the page can correct: a wrong option, or a graph that is no text file."""
        try:
            self._place(self.source.start)
        except UsageError:
            raise
        except PlacesimError:
            if self.source.kind != GRAPH_FILE:
                raise

    def snapshot(self, state: State) -> Snapshot:
        """Return the placement of a state."""
        return self._place(state).snapshot

    def _place(self, state: State) -> _Placed:
        return self._placed.find(_key(state), lambda: self._placed_anew(state))

    def _placed_anew(self, state: State) -> _Placed:
        graph = self.source.graph(state)
        outcome = simulate(graph.loaded, graph.options, SimulationStage.PARTITIONED)
        snapshot = snapshot_of(self.source.path, outcome)
        error = outcome.error
        if error is None:
            return _Placed(graph, snapshot, None)
        if error.exit_code != 1:
            raise error
        return _Placed(graph, snapshot, _error(error, format_outcome_error(outcome)))

    def _changes(self, baseline: State | None, placed: _Placed) -> Changes | None:
        try:
            before = None if baseline is None else self.snapshot(baseline)
        except PlacesimError:
            before = None
        if before is None:
            return None
        after = placed.snapshot
        found = compare(before, after)
        names = list(dict.fromkeys(device.name for side in (before, after) for device in side.devices))
        short = dict(zip(names, short_names(names), strict=True))
        why = _Reasons(placed)
        moved = [
            Move(
                name=move.name,
                nodes=move.nodes,
                before=short[move.before],
                after=short[move.after],
                why=why.of(move, [one.name for one in found.moved]) if number < MAX_REASONS else "",
            )
            for number, move in enumerate(found.folded)
        ]
        transfers = [
            TransferChange(
                source=short[change.source],
                target=short[change.target],
                before=[change.before.number, change.before.bytes],
                after=[change.after.number, change.after.bytes],
            )
            for change in found.transfers
            if after.error is None
        ]
        return Changes(moved=moved, added=list(found.added), removed=list(found.removed), transfers=transfers)

    # --- steps

    @collector_paused()
    def measure(self, number: int, state: State, baseline: State | None = None) -> Measure:
        """Return the simulated step of a state, with the time and memory of the baseline."""
        began = time.monotonic()
        found = self._simulate(state)
        study = found.study
        before = None
        if baseline is not None:
            try:
                before = _measured(self._simulate(baseline))
            except PlacesimError:  # the baseline has its own answer, which tells the error
                before = None
        texts = Texts.none()
        has_lanes = study is not None and study.trace is not None and span_count(study) <= MAX_SPANS
        lanes = lanes_document(study, texts) | texts.document() if study is not None and has_lanes else None
        return Measure(
            id=number,
            note=found.note,
            now=_measured(found),
            before=before,
            lanes=lanes,
            error=None if study is None or study.error is None else _error(study.error, format_error(study.error)),
            assumptions=[] if study is None else list(study.assumptions),
            seconds=time.monotonic() - began,
        )

    def _simulate(self, state: State) -> _Simulated:
        return self._simulated.find(_key(state), lambda: self._simulated_anew(state))

    def _simulated_anew(self, state: State) -> _Simulated:
        graph = self.source.graph(state)
        loaded, options, name = graph.loaded, graph.options, self.source.path
        known = ask(
            lambda: study_time(loaded, options, name, is_traced=True), loaded, options, "", is_asked=True, raises_sizes=False
        )
        if known.found is None:
            return _Simulated(None, [], known.note)
        unlimited = replace(options, no_memory_limit=True)
        peaks = ask(lambda: find_peaks(loaded, unlimited), loaded, unlimited, "", is_asked=True, raises_sizes=False).found or ()
        assert loaded.file is not None
        categories = MemoryCategories(loaded.file.graph)
        limits = {device.device: device.limit for device in known.found.devices}
        names = dict(zip(limits, short_names(list(limits)), strict=True))
        memory = [
            DevicePeak(
                device=names[usage.device],
                peak=usage.peak,
                limit=limits[usage.device],
                parts=[[kind, size] for kind, size in categories.sizes(usage.holders).items() if size],
            )
            for usage in peaks
            if usage.device in limits
        ]
        return _Simulated(known.found, memory, "")

    # --- explanations

    def explain(self, number: int, state: State, node: str) -> Explanation:
        """Return why a node is on its device, and edits that would move it.

        If the graph can't be placed, the edits resolve the error. Raises UsageError for an unknown node.
        """
        from placesim.report.explain_report import explain_snapshot

        placed = self._place(state)
        snapshot, live = placed.snapshot, placed.snapshot.live
        found = Explanation(id=number, node=node, summary="", line=0, proof=[], edits=[], text="")
        if live is None or live.placement is None:
            return Explanation(**{**found, "summary": "" if snapshot.error is None else str(snapshot.error.summary)})
        report = explain_snapshot(snapshot, [node], 0)
        inquiry = Inquiry(live, live.placement, budget=NODE_BUDGET)
        proof = inquiry.explain(node)
        error = inquiry.placement_error()
        found["text"] = report.text()
        if proof is not None:
            found["summary"] = placed.reason(proof)
            found["line"] = 0 if proof.location is None else proof.location.line
            found["proof"] = list(_paragraphs(Paragraphs(live), snapshot, node))
            edit = placed.graph.edit_of(node)
            if edit is not None:
                found["proof"].insert(0, ["Edited", f"The edit of {edit} requests {proof.requested or 'no device'}."])
        if error is not None:
            alternatives = error.remedies
        else:
            explained = next(iter(inquiry.explained([node])), None)
            alternatives = None if explained is None else explained.alternatives
        before = None if proof is None else proof.device
        found["edits"] = [_suggestion(trial, before) for trial in (() if alternatives is None else alternatives.outcomes)]
        return found


def problems_of(error: PlacesimError) -> list[FileProblem]:
    """Return the problems of a file with their places, or any other error as one problem."""
    if isinstance(error, GraphFileError):
        return [_problem(problem.location, problem.message, ()) for problem in error.problems]
    return [_problem(error.location, error.message, error.help)]


def _problem(location: Location | None, message: str, lines: Sequence[str]) -> FileProblem:
    line, column = (0, 0) if location is None else location[1:]
    return FileProblem(line=line, column=column, message=message, help=list(lines))


def _error(error: PlacesimError, text: StyledText) -> PlacementError:
    line, column = (0, 0) if error.location is None else error.location[1:]
    summary = next(iter(str(text).split("\n")), "")
    return PlacementError(type=error.type_name, summary=summary, text=str(text), node=error.node, line=line, column=column)


def _key(state: State) -> str:
    return json.dumps(state, sort_keys=True)


def _settings(graph: EditedGraph, state: State) -> dict[str, Any]:
    """Return the effective values of a page's options; None if tasks differ."""
    file, options = graph.loaded.file, graph.options
    assert file is not None
    tasks = build_machine_settings(file, options).tasks
    config = session_config(file, options)

    def common(values: Iterator[Any]) -> Any:
        found = set(values)
        return found.pop() if len(found) == 1 else None

    return {
        **state["options"],
        "cpu": common(task.cpu for task in tasks),
        "gpu": common(task.gpu for task in tasks),
        "gpu_model": common(task.gpu_model.name for task in tasks),
        "soft_placement": config.allow_soft_placement,
        "optimize": config.do_constant_folding,
        "inter_op_threads": config.inter_op_parallelism_threads,
        "intra_op_threads": config.intra_op_parallelism_threads,
        "tensorflow": file.graph.registry.rules.name,
        "clear_devices": options.clear_devices,
    }


def _device_facts(snapshot: Snapshot) -> Iterator[DeviceFacts]:
    words = request_words(DeviceSet(snapshot.devices)) if snapshot.devices else {}
    for device, short in zip(snapshot.devices, short_names([device.name for device in snapshot.devices]), strict=True):
        yield DeviceFacts(
            name=device.name, short=short, request=words[device.name], model=_model(device), limit=device.allocation_limit
        )


def _model(device: Device) -> str:
    """Return the GPU model of a device as its description names it, or the host's name."""
    named = dict(part.strip().partition(": ")[::2] for part in device.physical_device_desc.split(","))
    return named.get("name", "" if device.host is None else device.host.name)


class _Reasons:
    """Reasons in one line for moves in a placement."""

    def __init__(self, placed: _Placed) -> None:
        self._placed = placed
        live = placed.snapshot.live
        self._inquiry = None if live is None or live.placement is None else Inquiry(live, live.placement)

    def of(self, move: ScopeMove, moved: Sequence[str]) -> str:
        """Return the most frequent reason of the moved nodes of a scope, or the reason of a node."""
        if self._inquiry is None:
            return ""
        names = (
            [name for name in moved if name == move.name or name.startswith(move.name)]
            if move.name[-1:] == "/"
            else [move.name]
        )
        proofs = (self._inquiry.explain(name) for name in names[:REASON_NODES])
        counts = Counter(self._placed.reason(proof) for proof in proofs if proof is not None)
        return next((reason for reason, _ in counts.most_common(1)), "")


def _measured(found: _Simulated) -> Measured | None:
    study = found.study
    if study is None:
        return None
    step, bound = study.step, study.bound
    time = StepTime(seconds=step.seconds, low=step.low, high=step.high, bound=bound.seconds, bound_reason=bound.what)
    return Measured(step=time, memory=found.memory)


def _paragraphs(source: Paragraphs, snapshot: Snapshot, name: str) -> Iterator[list[str]]:
    """Yield the terms and sentences of a node's proof, with the names of nodes."""
    picture = picture_of(snapshot)
    number = next(number for number, node in enumerate(picture.nodes) if node.name == name)
    for paragraph in source.of(number):
        text = paragraph.text
        for node in paragraph.nodes:
            text = text.replace(NODE, picture.nodes[node].name, 1)
        yield [paragraph.term, text]


def _suggestion(trial: Trial, before: str | None) -> Suggestion:
    edit = trial.edit
    devices: list[list[str]] | None = None
    options: dict[str, Any] | None = None
    match edit:
        case DeviceAddition():
            devices = [[name, edit.device] for name in edit.nodes]
        case AnnotationChange() if edit.annotation.kind is AnnotationKind.ENTRY:
            devices = [[edit.annotation.node, edit.device]]
        case SoftPlacementSwitch():
            options = {"soft_placement": edit.soft}
        case HardwareAddition() if edit.task.job in (None, "localhost"):
            options = {edit.device_type.lower(): edit.total}
    line = 0 if edit.location is None else edit.location.line
    return Suggestion(text=str(trial_text(trial, before)), line=line, devices=devices, options=options)
