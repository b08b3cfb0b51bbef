"""Local cluster: a Dask scheduler in this process, and a worker process for each name."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from placesim.core.errors import UnavailableError
from placesim.core.process.workers import Worker

if TYPE_CHECKING:
    from distributed.deploy.cluster import Cluster as DaskCluster

START_SECONDS = 60.0
"""Maximum seconds until a worker has started: it imports Dask, on a machine that may be busy."""
OWN_HOST = "127.0.0.1"
OWN_HTTP = f"{OWN_HOST}:0"
"""Address of Dask's HTTP pages; like the host, it is local, because anyone who reaches these processes can run code in them."""


class WorkerPlace(NamedTuple):
    """Settings of a local worker: the scheduler's address, and the worker's name and folder."""

    scheduler: str
    name: str
    folder: str


class _WorkerStart(NamedTuple):
    name: str
    answer: Any
    """`(address,)`, or an error message."""


@contextmanager
def own_workers(names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a local cluster that ends with the context; yield the scheduler's address, and each worker's address by name.

    The workers are not multiprocessing children, which would import the caller's `__main__`. No nanny restarts a lost worker,
    because a new worker would not have the lost one's state. Raises UnavailableError if a process can't be started.
    """
    from distributed import LocalCluster

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="placesim-", ignore_cleanup_errors=True))
        try:
            hub: DaskCluster = LocalCluster(
                n_workers=0,
                processes=True,
                silence_logs=logging.CRITICAL,
                host=OWN_HOST,
                dashboard_address=OWN_HTTP,
                scheduler_kwargs={"local_directory": folder},
            )
        except (OSError, RuntimeError) as error:
            raise UnavailableError(f"cannot start a local scheduler: {error}") from None
        stack.callback(_close, hub)
        processes: list[Worker] = []
        stack.callback(_end, processes)
        address: str = hub.scheduler_address
        yield address, _start(processes, [WorkerPlace(address, name, folder) for name in names])


def _start(processes: list[Worker], places: Sequence[WorkerPlace]) -> dict[str, str]:
    """Start the workers at the same time; return their addresses by name."""
    started: SimpleQueue[_WorkerStart] = SimpleQueue()
    for place in places:
        try:
            process = Worker("placesim.runtime.cluster.worker")
        except OSError as error:
            raise UnavailableError(f"cannot start a worker for {place.name}: {error.strerror or error}") from None
        processes.append(process)
        Thread(target=_ask, args=(process, place, started), name="placesim-start", daemon=True).start()
    found: dict[str, str] = {}
    for _ in places:
        try:
            name, answer = started.get(timeout=START_SECONDS)
        except Empty:
            late = ", ".join(place.name for place in places if place.name not in found)
            raise UnavailableError(f"workers did not start within {START_SECONDS:g} s: {late}") from None
        if isinstance(answer, str):
            raise UnavailableError(f"the worker for {name} could not be started: {answer}")
        found[name] = answer[0]
    return {place.name: found[place.name] for place in places}


def _ask(process: Worker, place: WorkerPlace, started: SimpleQueue[_WorkerStart]) -> None:
    try:
        process.tell(place)
        answer = process.answer()
    except Exception:  # the process has ended, and `_start` waits for an answer with the reason
        try:
            answer = f"its process ended with {process.how_it_ended()}"
        except TimeoutError:
            answer = "its process does not answer"
    started.put(_WorkerStart(place.name, answer))


def _end(processes: Sequence[Worker]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.close()


def _close(hub: DaskCluster) -> None:
    with suppress(Exception):  # the workers are gone already
        hub.close(timeout=2)
