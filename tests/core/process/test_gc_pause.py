"""Runs of Python's garbage collector."""

from __future__ import annotations

import gc
import subprocess
import sys

from placesim.core.process import gc_pause


def test_the_first_collection_comes_late_and_later_ones_as_usual() -> None:
    usual, callbacks = gc.get_threshold(), list(gc.callbacks)
    gc_pause.delay_first_collection()
    assert gc.get_threshold()[0] == gc_pause.FIRST_COLLECTION
    gc.freeze()  # what other tests left would take seconds to collect
    gc.collect(0)
    assert gc.get_threshold() == usual
    assert gc.callbacks == callbacks


def test_only_the_process_of_the_command_line_keeps_objects_until_exit() -> None:
    frozen = gc.get_freeze_count()
    gc_pause.keep_until_exit(object())
    assert gc.get_freeze_count() == frozen
    code = (
        "import gc, sys; sys.argv[0] = 'placesim'; from placesim.core.process.gc_pause import keep_until_exit;"
        "keep_until_exit(object()); assert gc.get_freeze_count()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
