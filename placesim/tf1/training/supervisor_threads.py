"""Periodic threads of a Supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from placesim.tf1.queues.queue_runners import LooperThread
from placesim.tf1.session.stacks import RunningSession
from placesim.tf1.training.own_steps import read_step
from placesim.tf1.training.step_hooks import report_rate


class Supervision(Protocol):
    """Attributes of a Supervisor that its threads read."""

    @property
    def coord(self) -> Any:
        """The Coordinator of the threads."""

    @property
    def global_step(self) -> Any:
        """Variable that counts steps."""

    @property
    def summary_writer(self) -> Any:
        """Writer of summaries; None if there is none."""


class PeriodicThread(LooperThread):
    """Runs a function periodically, starting at once."""

    def __init__(self, supervisor: Supervision, seconds: float, act: Callable[[], None]) -> None:
        super().__init__(supervisor.coord, seconds)
        self._act = act

    def run_loop(self) -> None:
        """Call the function."""
        self._act()


class StepCounter(LooperThread):
    """Reports global steps per second."""

    def __init__(self, supervisor: Supervision, session: RunningSession, seconds: float) -> None:
        super().__init__(supervisor.coord, seconds)
        self._supervisor, self._session = supervisor, session
        self._tag = f"{supervisor.global_step.op.name}/sec"

    def start_loop(self) -> None:
        """Record the start of counting."""
        self._time = time.time()
        self._step = read_step(self._session, self._supervisor.global_step)

    def run_loop(self) -> None:
        """Log the rate, and write it as a summary."""
        step = read_step(self._session, self._supervisor.global_step)
        now = time.time()
        passed, seconds = step - self._step, now - self._time
        self._step, self._time = step, now
        rate = passed / seconds if seconds else float("inf")
        report_rate(self._supervisor.summary_writer, self._tag, rate, step)
