"""A page that shows any two of several simulated placements, one above the other on one time axis.

It compares a plan with other placements, strategies for a graph, or two graphs. Each step is compressed separately and
decompressed when selected, so a page with ten placements opens as fast as one with two. Texts are shared.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from placesim.core.escaping import escape_line
from placesim.inspection.short_device_names import short_names
from placesim.planning.graphs.plan_comparison import ANNOTATED, DEFAULT, PlanMeasure, PlanStudy, SimulatedPlacement
from placesim.planning.strategies.strategy_comparison import StrategyComparison
from placesim.prediction.time_breakdown import TimeStudy
from placesim.report.pictures.shell import Shell, compress_json
from placesim.report.pictures.timing_data import MAX_SPANS, Texts, lanes_document, span_count
from placesim.report.pictures.timing_page import BUTTONS, COLOURS, LANES
from placesim.report.text.amounts import readable_seconds
from placesim.report.text.planning import placement_document, plan_document, readable_value, summarise_error
from placesim.report.text.tables import NOTHING

SHELL = Shell(
    kind="timing comparison",
    command="placesim",
    about="a comparison of two placements of a TensorFlow graph and their predicted step times. Works offline.",
    main=("comparison.html", "lanes_keys.html"),
    styles=("timing.css", "comparison.css"),
    scripts=(*LANES, "comparison_tables.js", "comparison.js"),
    finds="Find a node",
    colours=COLOURS,
    buttons=BUTTONS,
    has_keys=True,
)
_FACTS = ("objective", "value", "bound", "gap", "is_optimal", "is_interrupted", "ended_early", "method", "ways_out")
"""Keys of a plan's JSON object that the page needs."""
_HEAD = ("placement", "step", "interval", "peak memory", "transfers", "error")


class Comparison(NamedTuple):
    """Simulated placements with traces; `before` and `after` are the indices of the two placements that are shown first."""

    name: str
    placements: Sequence[SimulatedPlacement]
    before: int
    after: int
    plan: PlanStudy | None = None


def plan_page(study: PlanStudy) -> str | None:
    """Return a page that compares a plan with other placements, or None if nothing was simulated."""
    runs = [number for number, placed in enumerate(study.placements) if placed.study is not None]
    if not runs:
        return None
    best = study.plan or min((study.placements[number] for number in runs), key=lambda placed: placed.value(study.sought))
    places = {id(placed): number for number, placed in enumerate(study.placements)}
    before = study.before or best
    return comparison_page(Comparison(study.name, study.placements, places[id(before)], places[id(best)], study))


def difference_page(names: Sequence[str], labels: Sequence[str], studies: Sequence[TimeStudy]) -> str:
    """Return a page that compares the steps of two graphs.

    If both are the same graph, its name is only in the title, and left out of the labels, such as `model.yaml (gpu=2)`.
    """
    if names[0] == names[1]:
        labels = [label.removeprefix(f"{names[0]} (").removesuffix(")") for label in labels]
    placed = [SimulatedPlacement(label, study, study.error) for label, study in zip(labels, studies, strict=True)]
    return comparison_page(Comparison(" · ".join(dict.fromkeys(names)), placed, 0, 1))


def strategies_page(compared: StrategyComparison) -> str:
    """Return a page that compares the best strategy with one device, and lists all others."""
    placements = [result.placed for result in compared.results]
    before = compared.results.index(compared.one_device)
    return comparison_page(Comparison(compared.name, placements, before, before if compared.best is None else 0))


def comparison_page(comparison: Comparison) -> str:
    """Return the whole page."""
    texts = Texts.none()
    steps = {f"packed-step-{number}": compress_json(document) for number, document in _steps(comparison, texts)}
    data = {"packed-data": compress_json(_document(comparison, texts, steps))} | steps
    return SHELL.page(comparison.name, data, _table(comparison))


def _table(comparison: Comparison) -> str:
    """Return the placements as an HTML table, for a browser that runs no scripts."""
    rows = [_cells(placed) for placed in comparison.placements]
    lines = ("".join(f"<td>{html.escape(escape_line(cell))}</td>" for cell in row) for row in rows)
    head = "".join(f'<th scope="col">{name}</th>' for name in _HEAD)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cells(placed: SimulatedPlacement) -> tuple[str, ...]:
    study = placed.study
    if study is None:
        return (placed.label, *([NOTHING] * 4), summarise_error(placed))
    interval = f"{readable_seconds(study.step.low)} to {readable_seconds(study.step.high)}"
    peak = readable_value(PlanMeasure.MEMORY, placed.value(PlanMeasure.MEMORY))
    transfers = str(len(study.counted_transfers))
    return (placed.label, readable_seconds(placed.seconds), interval, peak, transfers, summarise_error(placed))


def _steps(comparison: Comparison, texts: Texts) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the timelines of as many placements as a page can hold, beginning with the two that are shown first."""
    first = dict.fromkeys((comparison.after, comparison.before))
    room = MAX_SPANS
    for number in (*first, *(number for number in range(len(comparison.placements)) if number not in first)):
        study = comparison.placements[number].study
        if study is not None and study.trace is not None and span_count(study) <= room:
            room -= span_count(study)
            yield number, lanes_document(study, texts)


def _document(comparison: Comparison, texts: Texts, steps: dict[str, str]) -> dict[str, Any]:
    plan = None if comparison.plan is None else _plan(comparison, comparison.plan, texts)
    return {
        "graph": escape_line(comparison.name),
        "before": comparison.before,
        "after": comparison.after,
        "placements": [
            placement_document(placed)
            | {
                "label": escape_line(placed.label),
                "short": [] if placed.study is None else short_names([device.device for device in placed.study.devices]),
                "note": escape_line(summarise_error(placed)) if placed.error is not None else "",
                "spans": None if placed.study is None else span_count(placed.study),
                "has_lanes": f"packed-step-{number}" in steps,
            }
            for number, placed in enumerate(comparison.placements)
        ],
        "plan": plan,
        **texts.document(),
    }


def _safe(curve: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the points of a curve with names that are safe to show."""
    return [point | {"edits": [edit | {"path": escape_line(edit["path"])} for edit in point["edits"]]} for point in curve]


def _plan(comparison: Comparison, study: PlanStudy, texts: Texts) -> dict[str, Any]:
    before, after = comparison.placements[comparison.before], comparison.placements[comparison.after]
    facts = plan_document(study)
    is_told = after is study.plan and before.label in (ANNOTATED, DEFAULT)
    return {
        "index": comparison.after if study.plan is not None else None,
        # moves are relative to the graph's own placement
        "moves_from": comparison.before if is_told else None,
        **{key: facts[key] for key in _FACTS},
        "movable": study.movable,
        "asked": len(study.asked),
        "edits": len(study.edits),
        "curve": _safe(facts["curve"]),
        "moves": [
            {
                "nodes": [texts.names.number(escape_line(name)) for name in move.nodes],
                "source": move.source,
                "target": move.target,
                "loss": move.loss,
            }
            for move in study.moves
        ],
    }
