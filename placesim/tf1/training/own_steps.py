"""Internal steps of training sessions: readiness checks, reading the global step, saving.

Where a script runs only for its graph such a step is neither computed nor told: the model counts as ready, and the first
step is one that the script itself asks for.
"""

from __future__ import annotations

from typing import Any

from placesim.tf1.session import watching
from placesim.tf1.session.stacks import RunningSession


def run_own(session: RunningSession, fetches: object, otherwise: object) -> Any:
    """The values of fetches; `otherwise` where steps aren't computed."""
    if not watching.computes_steps():
        return otherwise
    with watching.untold():
        return session.run(fetches)


def read_step(session: RunningSession, step: object) -> int:
    """The value of a global step in a session; 0 if steps aren't computed."""
    return int(run_own(session, step, 0))
