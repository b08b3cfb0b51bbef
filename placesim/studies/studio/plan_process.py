"""A search for a plan in a separate process, so that it does not slow down answers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread

from placesim.core.errors import UnavailableError, UsageError
from placesim.core.process.workers import Worker
from placesim.studies.studio.messages import Search, State
from placesim.studies.studio.plan_search import END, NO_PLAN, PlanEvent, PlanTask
from placesim.studies.studio.source import StudioSource

MAX_SECONDS = 3600


class PlanSearch:
    """At most one search at a time. `tell` receives its events in a thread of the search."""

    def __init__(self, source: StudioSource, tell: Callable[[PlanEvent], object]) -> None:
        self._source = source
        self._tell = tell
        self._worker: Worker | None = None
        self._lock = Lock()

    def start(self, state: State, search: Search) -> None:
        """Start a search. Raises UsageError if one is running, and UnavailableError if no process can be started."""
        with self._lock:
            if self._worker is not None:
                raise UsageError("a search is running: stop it first")
            try:
                self._worker = worker = Worker("placesim.studies.studio.plan_worker")
            except OSError as error:
                raise UnavailableError(f"cannot start a search process: {error.strerror or error}") from None
        worker.tell(PlanTask(self._source, state, search))
        Thread(target=self._follow, args=(worker,), name="placesim-plan", daemon=True).start()

    def stop(self) -> None:
        """Ask the search to end with its best plan so far."""
        with self._lock:
            if self._worker is not None:
                self._worker.pass_on(b"stop")

    def close(self) -> None:
        """End the search at once."""
        with self._lock:
            if self._worker is not None:
                self._worker.kill()

    def _follow(self, worker: Worker) -> None:
        event = PlanEvent("", {})
        while event.name != END:
            try:
                event = worker.answer()
            except Exception:  # the process ended, perhaps within an answer
                event = PlanEvent(END, {**NO_PLAN, "note": "the search ended early"})
            if event.name == END:
                with self._lock:
                    self._worker = None
                worker.close()
            self._tell(event)


def read_search(value: object) -> Search:
    """Return the settings of a search that a page sent. Raises UsageError for invalid settings."""
    free = value.get("free") if isinstance(value, dict) else None
    seconds = value.get("seconds") if isinstance(value, dict) else None
    if not isinstance(free, list) or not all(isinstance(pattern, str) for pattern in free):
        raise UsageError("wrong search: expected `free` with a list of patterns")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f"wrong search: expected `seconds` above 0 and at most {MAX_SECONDS}")
    return Search(free=free, seconds=float(seconds))
