"""`placesim run script.py`: the script runs as a program, its sessions on the simulated machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from placesim.core.errors import PlacesimError
from placesim.core.operating_system import is_reader_lost, reader_is_gone
from placesim.machine.program_machine import current_machine, override_machines
from placesim.ops.categories import CALLS
from placesim.tf1.release import speak
from placesim.tf1.running.script_execution import execute, exit_code


def run_live(path: str, job: Mapping[str, Any]) -> None:
    """Run a script to its end; the process ends with the script's own exit code."""
    try:
        override_machines(job["options"])
        speak(current_machine().options.release)
        _set_log(job)
    except PlacesimError as error:
        _end(error, path, job)
    try:
        execute(path)
    except SystemExit as error:
        _warn_unmatched(job)
        code, text = exit_code(error)
        sys.stderr.write(text)
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseException as error:
        _end(error, path, job)
    _check_eager()
    _warn_unmatched(job)


def _check_eager() -> None:
    """Tell on standard error that nothing was computed, if the script called a `tf.function` and used no session."""
    if "placesim.tf1.functions.traced" not in sys.modules or "placesim.tf1.session.sessions" in sys.modules:
        return
    from placesim.tf1.graphs.graph import get_default_graph
    from placesim.tf1.running.advice import NO_EAGER

    calls = [op for op in get_default_graph().get_operations() if op.type in CALLS]
    if calls:
        text = "\n  ".join(
            (f"Nothing was computed: the call of a tf.function made the node {calls[0].name}, and no session ran it", *NO_EAGER)
        )
        sys.stderr.write(text + "\n")


def _set_log(job: Mapping[str, Any]) -> None:
    from placesim.tf1.session import placement_log

    if job.get("log_filters"):
        placement_log.shows_node = _LogFilter(job["log_filters"]).shows
    placement_log.logs_creation = bool(job.get("log_creation"))
    if job["options"].get("log_style") == "classic":
        import numpy as np

        np.set_printoptions(legacy="1.13")  # TensorFlow's first guides print arrays so


class _LogFilter:
    """The patterns of `--log-filter`; `unmatched` are those that matched no logged node so far."""

    def __init__(self, patterns: Sequence[str]) -> None:
        from placesim.graph.node_patterns import matcher

        self._matchers = {pattern: matcher((pattern,)) for pattern in patterns}
        self.unmatched = list(patterns)
        self.logged: dict[str, None] = {}

    def shows(self, name: str) -> bool:
        """Whether a node is logged."""
        self.logged[name] = None
        found = [pattern for pattern, matches in self._matchers.items() if matches(name)]
        self.unmatched = [pattern for pattern in self.unmatched if pattern not in found]
        return bool(found)


def _warn_unmatched(job: Mapping[str, Any]) -> None:
    """Tell on standard error which patterns of `--log-filter` matched none of the nodes that sessions placed."""
    from placesim.tf1.session import placement_log

    log_filter = getattr(placement_log.shows_node, "__self__", None)
    if job.get("quiet") or log_filter is None or not log_filter.logged:
        return
    from placesim.core.escaping import escape
    from placesim.report.log_filter import unmatched_warning

    for pattern in log_filter.unmatched:
        sys.stderr.write(escape(f"{unmatched_warning(pattern, log_filter.logged)}\n"))


def _end(error: BaseException, path: str, job: Mapping[str, Any]) -> None:
    """Report how the script ended, and exit with the code of its exception."""
    from placesim.tf1.running.failures import format_failure

    if job.get("debug"):
        import traceback

        traceback.print_exception(error)
    try:
        sys.stdout.flush()
    except OSError:
        _silence_output()
    if isinstance(error, OSError) and is_reader_lost(error) and reader_is_gone(1):
        sys.exit(0)
    sys.stderr.write(format_failure(error, path, job["command_options"]))
    sys.exit(1)


def _silence_output() -> None:
    """Discard buffered output, so that closing it at exit reports nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
