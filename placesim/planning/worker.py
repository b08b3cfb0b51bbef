"""`python -m placesim.planning.worker`: a process that searches.

It reads pickled `LaneTask`s, and answers each with every `LaneNews`, with an exception where there is one, and with DONE at
last.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import IO, Any

from placesim.core.process.workers import DONE, serve


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """One lane after another, until the input ends."""
    while True:
        try:
            for news in pickle.load(questions).run():
                answer(news)
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:  # whatever it is, who waits has to hear of it
            answer(error)
        answer(DONE)


if __name__ == "__main__":
    serve(work)
