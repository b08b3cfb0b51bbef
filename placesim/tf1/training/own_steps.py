"""Internal steps of training sessions: readiness checks, reading the global step, saving.

If a script runs only to build its graph, internal steps are neither computed nor reported: the model counts as ready, and
the first step is the script's own.
"""

from __future__ import annotations

from typing import Any

from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession


def run_own(session: RunningSession, fetches: object, otherwise: object) -> Any:
    """Values of fetches in an internal step; `otherwise` if steps are not computed."""
    if not watching.computes_steps():
        return otherwise
    with watching.internal_steps():
        return session.run(fetches)


def read_step(session: RunningSession, step: object) -> int:
    """Value of a global step in a session; 0 if steps are not computed."""
    return int(run_own(session, step, 0))
