"""`python -m placesim.planning.worker`: a process that searches.

It reads a pickled `LaneTask`, and answers with each `News`; with an exception where there is one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import IO, Any

from placesim.processes import serve


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """One lane."""
    try:
        for news in pickle.load(questions).run():
            answer(news)
    except BrokenPipeError:
        raise
    except Exception as error:  # whatever it is, who waits has to hear of it
        answer(error)


if __name__ == "__main__":
    serve(work)
