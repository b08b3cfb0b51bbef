"""`python -m placesim.sweeping.worker`: a process that simulates what it is told over its standard input.

It reads a pickled `Job`, then combinations; for each it writes a pickled `RowOutcome` to what was its standard output.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings


def work() -> None:
    """Until the input ends."""
    from placesim.sweeping.simulating import simulate_row

    warnings.simplefilter("ignore")
    # whatever prints must not get between the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    questions = sys.stdin.buffer
    job = pickle.load(questions)
    while True:
        try:
            values = pickle.load(questions)
        except EOFError:
            return
        answers.write(pickle.dumps(simulate_row(job, values)))
        answers.flush()


if __name__ == "__main__":
    work()
