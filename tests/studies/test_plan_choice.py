"""The rows of a plan's report: labels that tell placements apart."""

from __future__ import annotations

from typing import cast

from placesim.planning.graphs.edit_search import EditTree
from placesim.planning.graphs.multilevel_search import Candidate
from placesim.planning.graphs.plan_comparison import DEFAULT, PLANNED, Aim, SimulatedPlacement
from placesim.prediction.time_breakdown import StepTime, TimeStudy
from placesim.studies.plan_choice import LEAST_MEMORY, NODE_BY_NODE, EditedPlans, PlanChoice


def placed(label: str, seconds: float) -> SimulatedPlacement:
    return SimulatedPlacement(
        label, TimeStudy("g", (StepTime(0, 1, seconds, seconds, seconds, seconds),), (), (), (), (), (), (), ())
    )


def test_no_two_placements_have_one_label() -> None:
    rows = {
        Candidate(DEFAULT, (0, 0)): 9.0,
        Candidate(LEAST_MEMORY, (0, 1)): 8.0,
        Candidate(LEAST_MEMORY, (1, 0)): 7.0,
        Candidate(PLANNED, (1, 1)): 6.0,
    }
    _, other, least, planned = rows
    shown = {row.devices: placed(row.label, seconds) for row, seconds in rows.items()}

    def labels(best: Candidate, better: Candidate | None, plans: EditedPlans) -> list[tuple[str, tuple[int, ...]]]:
        return [(row.label, row.devices) for row in PlanChoice(Aim(), shown, plans).listed(list(rows), best, better)]

    again = Candidate(PLANNED, (2, 2))
    shown[again.devices] = placed(PLANNED, 6.5)
    twice = PlanChoice(Aim(), shown, EditedPlans()).listed([*rows, again], planned, None)
    assert [row.label for row in twice] == [DEFAULT, LEAST_MEMORY, PLANNED, f"{PLANNED}, alternative"]
    expected = [(DEFAULT, (0, 0)), (LEAST_MEMORY, (1, 0)), (PLANNED, (1, 1))]
    by_scope = EditedPlans(cast("EditTree", object()))
    assert labels(planned, None, EditedPlans()) == expected
    assert labels(planned, None, by_scope) == expected
    # the plan itself may be one, and a better one that edits do not reach is named otherwise
    assert labels(other, None, by_scope) == [(DEFAULT, (0, 0)), (LEAST_MEMORY, (0, 1))]
    assert labels(other, least, by_scope) == [(DEFAULT, (0, 0)), (LEAST_MEMORY, (0, 1)), (NODE_BY_NODE, (1, 0))]
    assert labels(least, planned, by_scope) == [(DEFAULT, (0, 0)), (LEAST_MEMORY, (1, 0)), (NODE_BY_NODE, (1, 1))]
