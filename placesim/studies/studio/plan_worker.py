"""Process that searches a plan for the studio: `python -m placesim.studies.studio.plan_worker`.

It reads a pickled `PlanTask`, writes `PlanEvent`s, and ends after the event `plan-done`. Any further input interrupts the
search.
"""

from __future__ import annotations

import pickle
from _thread import interrupt_main
from collections.abc import Callable
from threading import Thread
from typing import IO, Any

from placesim.core.errors import PlacesimError
from placesim.core.process.workers import serve
from placesim.studies.studio.messages import FoundPlan
from placesim.studies.studio.plan_search import END, NO_PLAN, PlanEvent, PlanTask, StudioPlanner


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """Search the plan of one task."""
    task: PlanTask = pickle.load(questions)
    Thread(target=_stop_on_input, args=(questions,), daemon=True).start()
    try:
        found = StudioPlanner(task, answer).plan()
    except KeyboardInterrupt:  # before there was a plan
        found = FoundPlan(**{**NO_PLAN, "is_interrupted": True, "note": "stopped before a plan was found"})
    except PlacesimError as error:
        found = FoundPlan(**{**NO_PLAN, "note": error.message})
    except Exception as error:  # the page must learn of any defect
        found = FoundPlan(**{**NO_PLAN, "note": f"a bug in placesim: {type(error).__name__}: {error}"})
    answer(PlanEvent(END, found))


def _stop_on_input(questions: IO[bytes]) -> None:
    questions.read(1)  # also returns when the studio has ended
    interrupt_main()


if __name__ == "__main__":
    serve(work)
