"""Process of a local Dask worker, `python -m placesim.runtime.cluster.worker`, which `local_cluster` starts.

The process reads a pickled `WorkerPlace`, and answers with the worker's address or an error message. It ends when its standard
input ends, so it never outlives the process that started it.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from threading import Thread
from typing import IO, Any

from placesim.core.process.workers import serve
from placesim.ops.process.freed_memory import keep_freed_memory
from placesim.runtime.cluster.local_cluster import OWN_HOST, OWN_HTTP, WorkerPlace

_CLOSING_SECONDS = 2.0


def work(questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    """Run a worker until `questions` ends or the scheduler is gone."""
    import asyncio

    keep_freed_memory()  # before any thread has started
    place = pickle.load(questions)
    assert isinstance(place, WorkerPlace)
    try:
        asyncio.run(_serve(place, questions, answer))
    except Exception as error:  # the process that started this one waits for an answer
        answer(f"{type(error).__name__}: {error}")
    finally:
        # the process that made the folder may be gone
        shutil.rmtree(place.folder, ignore_errors=True)
        # do not wait for threads that still compute or wait
        os._exit(0)


async def _serve(place: WorkerPlace, questions: IO[bytes], answer: Callable[[Any], None]) -> None:
    import asyncio

    from distributed import Worker

    loop = asyncio.get_running_loop()
    worker = await Worker(
        place.scheduler,
        name=place.name,
        nthreads=1,
        memory_limit=0,
        dashboard=False,
        dashboard_address=OWN_HTTP,
        local_directory=place.folder,
        host=OWN_HOST,
    )
    answer((worker.address,))

    async def close() -> None:
        await worker.close(timeout=_CLOSING_SECONDS, reason="placesim ended")

    def wait_for_end() -> None:
        questions.read()
        asyncio.run_coroutine_threadsafe(close(), loop)

    Thread(target=wait_for_end, name="placesim-end", daemon=True).start()
    await worker.finished()


if __name__ == "__main__":
    serve(work)
