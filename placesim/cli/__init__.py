"""The command line. Commands and their dependencies are imported only when they are called, so that it starts fast."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Sequence

from placesim.core.process.interrupts import (
    INTERRUPTED,
    end_on_interrupt,
    interrupt_commands,
    is_own_process,
    leave,
    was_interrupted,
)

BLAS_SPIN = ("OPENBLAS_THREAD_TIMEOUT", "18")
"""OpenBLAS's variable for the time that an idle thread spins: 2 to the power of this value, in processor cycles.

OpenBLAS's default of 26 is about 25 ms after the import and after each product, on an idle processor. That is up to a quarter
of the processor time of a short command. 18 is still longer than the pause between two products.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    The code is 0 for success, 1 for an error that TensorFlow would raise, and 2 for invalid input. It is 70 for a bug in
    placesim, and 130 on Ctrl-C.
    """
    # numpy's warnings are about its own arithmetic, not about the graph
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if arguments is not None or not is_own_process():
        return _run(arguments)
    interrupt_commands()
    os.environ.setdefault(*BLAS_SPIN)
    code = _run(None)
    end_on_interrupt()
    if was_interrupted():
        leave(INTERRUPTED)
    from placesim.core.process.deadlines import has_abandoned_work

    if has_abandoned_work() or _is_finished():
        leave(code)  # Python would release all modules and objects first, which takes as long as a third of the imports
    return code


def _is_finished() -> bool:
    """Call the functions that are registered for the exit, unless Python still has to wait for a thread."""
    from threading import enumerate as running_threads
    from threading import main_thread

    if any(not thread.daemon for thread in running_threads() if thread is not main_thread()):
        return False
    atexit._run_exitfuncs()
    return True


def _run(arguments: Sequence[str] | None) -> int:
    try:
        from placesim.cli.error_exit import run_shell

        return run_shell(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # an error outside the commands, such as a failed import
        text = ascii(str(error))[1:-1]
        if sys.stderr is not None:
            sys.stderr.write(f"InternalError: {type(error).__name__}: {text}\n  this is a bug in placesim\n")
        return 70
