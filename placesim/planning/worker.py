"""Process that runs searches: `python -m placesim.planning.worker`.

It reads pickled `LaneTask`s.  It answers each with its `LaneNews`, or an exception, and finally with DONE.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import IO, Any

from placesim.core.process.workers import DONE, serve


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """Run one lane after another until the input ends."""
    while True:
        try:
            for news in pickle.load(questions).run():
                answer(news)
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:  # the process that asks must learn of any error
            answer(error)
        answer(DONE)


if __name__ == "__main__":
    serve(work)
