"""Log of a session with `log_device_placement`, in TensorFlow's form: devices at creation, nodes at placement."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from placesim.core.errors import PlacesimError
from placesim.core.escaping import escape
from placesim.report.text.complaint import format_classic_error
from placesim.report.text.log import (
    Shows,
    classic_lines,
    creation_lines,
    format_lines,
    format_mapping,
    mapping_lines,
    modern_lines,
)

if TYPE_CHECKING:
    from placesim.machine.options import SimulationOptions
    from placesim.runtime.sessions.session import GraphSession
    from placesim.studies.simulation.program_sessions import OpenedMachine

shows_node: Shows | None = None
"""Filter of logged nodes, by their names; None: all."""
is_silent: bool = False
"""Whether logging is off for all sessions, as when a script runs only for its graph."""
logs_creation: bool = False
"""Whether TensorFlow's log of created GPUs goes to standard error."""


class PlacementLog:
    """Writes to standard output, as TensorFlow does.  The message of an empty device mapping goes to standard error."""

    def __init__(self, machine: OpenedMachine, options: SimulationOptions) -> None:
        self._machine = machine
        self._is_on = machine.config.log_device_placement and not is_silent
        self._is_classic = options.log_style == "classic"
        self._fetches: list[str] = []
        self._written = 0

    def write_mapping(self) -> None:
        """Write the device mapping and, if enabled, the log of created GPUs."""
        if logs_creation:
            told = creation_lines(self._machine.creation_log, self._machine.devices, self._is_classic)
            sys.stderr.write("".join(f"{escape(line)}\n" for line in told))
        for line in () if is_silent else self._machine.creation_log:
            if line.severity != "I":
                sys.stderr.write(f"{escape(line.text)}\n")
        if self._is_on:
            lines = mapping_lines(self._machine.device_set.devices, self._is_classic)
            (sys.stdout if lines else sys.stderr).write(escape(format_mapping(lines)))

    def fetched(self, names: Iterable[str]) -> None:
        """Set the names of the nodes that a step fetches; the order of the log in the classic style depends on them."""
        self._fetches = list(names)

    def classic_error(self, error: PlacesimError, session: GraphSession) -> str | None:
        """Error for a missing device in the classic style, None in the modern style."""
        if not self._is_classic or not session.placements:
            return None
        found = format_classic_error(error, session.placements[-1], self._fetches)
        return None if found is None else str(found)

    def write_placements(self, session: GraphSession) -> None:
        """Write the placements since the last call."""
        placements = session.placements[self._written :]
        self._written = len(session.placements)
        if not placements or not self._is_on:
            return
        lines = (
            classic_lines(placements, self._fetches, shows_node) if self._is_classic else modern_lines(placements, shows_node)
        )
        sys.stdout.write(escape(format_lines(lines)))
