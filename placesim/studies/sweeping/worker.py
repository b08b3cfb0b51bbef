"""Worker process that simulates rows of a sweep: `python -m placesim.studies.sweeping.worker`.

It reads a pickled `SweepJob` from standard input, then combinations, and answers each combination with a `RowOutcome`.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from placesim.core.process.workers import serve


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """Answer requests until the input ends."""
    from placesim.studies.sweeping.row_simulation import simulate_row

    warnings.simplefilter("ignore")
    job = pickle.load(questions)
    if job.folder is not None:
        with suppress(OSError):  # if this machine lacks the folder, no path is relative to it
            os.chdir(job.folder)
    while True:
        try:
            values = pickle.load(questions)
        except EOFError:
            return
        answer(simulate_row(job, values))


if __name__ == "__main__":
    serve(work)
