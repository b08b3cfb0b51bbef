"""The command line.  It starts like a shell tool: a command, and what it needs, is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.interrupts import INTERRUPTED, end_on_interrupt, interrupt_commands, is_own_process, leave, was_interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 where TensorFlow would have raised, 2 where the input is wrong, 130 on Ctrl-C."""
    if arguments is not None or not is_own_process():
        return _run(arguments)
    interrupt_commands()
    code = _run(None)
    end_on_interrupt()
    if was_interrupted():
        leave(INTERRUPTED)
    from placesim.deadlines import gave_up

    if gave_up():
        leave(code)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        from placesim.cli.shell import run_shell

        return run_shell(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
