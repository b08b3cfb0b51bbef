"""Runs of Python's garbage collector."""

from __future__ import annotations

import gc
import subprocess
import sys

from placesim.core.process import gc_pause


def run(code: str) -> None:
    """Run code in a process of its own, where no other test's objects are waiting for the collector."""
    subprocess.run([sys.executable, "-c", f"import gc, sys; from placesim.core.process import gc_pause; {code}"], check=True)


def test_the_first_collection_comes_late_and_later_ones_as_usual() -> None:
    run(
        "usual = gc.get_threshold(); gc_pause.delay_first_collection();"
        "assert gc.get_threshold()[0] == gc_pause.FIRST_COLLECTION;"
        "gc.collect(0); assert gc.get_threshold() == usual; assert not gc.callbacks"
    )


def test_only_the_process_of_the_command_line_keeps_objects_until_exit() -> None:
    frozen = gc.get_freeze_count()
    gc_pause.keep_until_exit(object())
    assert gc.get_freeze_count() == frozen
    run("sys.argv[0] = 'placesim'; gc_pause.keep_until_exit(object()); assert gc.get_freeze_count()")
