"""Scripts in processes that are forked, and so need not import again what all scripts import."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import NoReturn

from placesim.formats.sources import scripts


def renew() -> None:
    """Forget what a process has begun: a default graph, the numbers of tensors and functions, the configuration."""
    from placesim.ops.kernels.resources import python_functions
    from placesim.tf1.graphs import graph, tensor
    from placesim.tf1.session import configuration

    graph.reset_default_graph()
    tensor.restart_ids()
    python_functions._numbers = itertools.count()
    configuration.reset()


def run_in_fork(command: Sequence[str], path: str | Path, timeout: float | None) -> int:
    """The exit code of a script's process, in place of `scripts._run`; its prints are lost, and no time limits it."""
    assert timeout is None, path
    import_api()
    child = os.fork()
    if not child:
        _run(command[command.index(scripts._PACKAGE_PARENT) + 1 :])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@cache
def import_api() -> None:
    """Import once, before processes are forked, what most scripts need."""
    import placesim.formats.script_graph
    import placesim.ops.kernels.array.constants
    import placesim.ops.kernels.math.arithmetic
    import placesim.ops.kernels.math.reductions
    import placesim.ops.kernels.random.distributions
    import placesim.studies.simulation.program_sessions
    import placesim.tf1.array.shaping
    import placesim.tf1.control_flow.tensor_arrays
    import placesim.tf1.functions.branches
    import placesim.tf1.functions.loops
    import placesim.tf1.graphs.placeholders
    import placesim.tf1.importing.import_hook
    import placesim.tf1.math.elementwise
    import placesim.tf1.math.products
    import placesim.tf1.optimizers.kinds
    import placesim.tf1.random.drawing
    import placesim.tf1.running.children
    import placesim.tf1.running.process
    import placesim.tf1.running.recorder
    import placesim.tf1.session
    import placesim.tf1.variables.functions
    import placesim.tf1.variables.getting
    import placesim.tf1.variables.initializers  # noqa: F401
    from placesim.tf1.gradients.registry import built_in
    from placesim.tf1.running.code_origin import is_users

    built_in()
    is_users(__file__)  # reads where Python's own files are


def _run(arguments: Sequence[str]) -> NoReturn:
    """Run a job, and end the process."""
    from placesim.tf1.running.process import main

    code = 1
    try:
        atexit._clear()  # what is left to the end of the process that this one was forked from
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            sys.argv = ["-c", *arguments]
            renew()
            main()
        code = 0
    finally:
        os._exit(code)
