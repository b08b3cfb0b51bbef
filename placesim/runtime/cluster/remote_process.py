"""Processes on the workers of a cluster that run modules of placesim, with the same interface as local processes."""

from __future__ import annotations

import pickle
import time
import uuid
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from placesim.core.errors import UnavailableError
from placesim.core.version import __version__
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.cluster.versions import read_offers
from placesim.runtime.cluster.worker_process import RUN_ERRAND, Answers, Errand

if TYPE_CHECKING:
    from distributed import Future

_LOOK_SECONDS = 1.0
ALONE_SECONDS = 10.0
"""Seconds without workers after which a cluster counts as lost; a cluster may replace a lost worker in less."""
_END = None


class RemoteProcessPool:
    """Opens processes that run one module on a cluster.

    Each process receives `preface` before its first question. With `answers_once`, a process gives one answer to each question;
    otherwise it receives one question, and gives answers until it ends.
    """

    def __init__(self, cluster: Cluster, module: str, preface: Any = _END, *, answers_once: bool) -> None:
        self.client = cluster.client
        self.scheduler = cluster.scheduler
        self.seconds = cluster.seconds
        # None means all workers, including those that join later; if some lack placesim, only the others are used
        self.workers = [offer.address for offer in cluster.offers] if cluster.left_out else None
        self.module = module
        self.answers_once = answers_once
        self.kin = "" if preface is _END else uuid.uuid4().hex
        # the preface is a task, so that the cluster computes it again if its worker is lost
        self.preface: Future | None = None
        if preface is not _END:
            key = f"placesim-preface-{self.kin}"
            self.preface = self.client.submit(bytes, pickle.dumps(preface), key=key, pure=False, workers=self.workers)
        self._lock = Lock()
        self._looked = time.monotonic()
        self._had_workers = self._looked

    def open(self) -> RemoteProcess:
        """Return a new process; it starts with its first question, on a worker that has a free thread."""
        return RemoteProcess(self)

    def leave_out_strangers(self) -> None:
        """From now on, use only the present workers with placesim. Raises UnavailableError if there are none."""
        offers = read_offers(self.client, self.seconds)
        self.workers = [offer.address for offer in offers if offer.has_placesim]
        if not self.workers:
            raise UnavailableError(f"no worker with placesim is left on the cluster at {self.scheduler}")

    def check_workers(self) -> None:
        """Raise UnavailableError if the cluster has had no workers for ALONE_SECONDS."""
        with self._lock:
            now = time.monotonic()
            if now >= self._looked + _LOOK_SECONDS:
                self._looked = now
                there = self.client.scheduler_info(n_workers=-1)["workers"]
                if there if self.workers is None else any(address in there for address in self.workers):
                    self._had_workers = now
            if now >= self._had_workers + ALONE_SECONDS:
                raise UnavailableError(f"no worker is left on the cluster at {self.scheduler}")


class RemoteProcess:
    """A process on the cluster, with the interface of `core.process.workers.Worker`.

    Each question is a Dask task, so Dask asks it again on another worker if the worker is lost.
    """

    def __init__(self, asking: RemoteProcessPool) -> None:
        self._asking = asking
        self._said: SimpleQueue[tuple[str, int, list[Any]] | None] = SimpleQueue()
        self._future: Future | None = None
        self._errand: Errand | None = None
        self._topic = ""
        self._is_killed = False
        self._ended = ""
        self._attempt, self._seen = "", 0
        self._ready: list[Any] = []

    def tell(self, question: Any) -> None:
        """Send a question.  Raises UnavailableError if the scheduler is gone."""
        asking = self._asking
        if not asking.answers_once:
            self._topic = f"placesim-{uuid.uuid4().hex}"
            asking.client.subscribe_topic(self._topic, lambda event: self._said.put(pickle.loads(event[1])))
        self._errand = Errand(asking.module, __version__, pickle.dumps(question), asking.kin, self._topic)
        self._submit()

    def _submit(self) -> None:
        assert self._errand is not None
        asking, key = self._asking, f"placesim-{uuid.uuid4().hex}"
        names = {"errand": tuple(self._errand), "preface": asking.preface}
        try:
            self._future = asking.client.submit(eval, RUN_ERRAND, names, key=key, pure=False, workers=asking.workers)
        except Exception as error:  # the client or its event loop is closed
            raise self._gone() from error
        self._future.add_done_callback(lambda future: self._said.put(_END))

    def answer(self) -> Any:
        """Return the next answer.  Raises EOFError if the process has ended, and UnavailableError if the cluster is gone."""
        while not self._ready:
            if self._is_killed or self._future is None:
                raise EOFError
            try:
                said = self._said.get(timeout=_LOOK_SECONDS)
            except Empty:
                self._asking.check_workers()
                continue
            if said is _END:
                found = self._outcome()
                if found is None:
                    self._submit()
                    continue
                self._future = None
                self._ended = found.ended
                self._take(found.attempt, 0, found.values)
            else:
                self._take(*said)
        return self._ready.pop(0)

    def _take(self, attempt: str, first: int, values: list[Any]) -> None:
        """Keep the new answers of a message, whose `values` begin with answer number `first` and may repeat earlier answers."""
        if attempt != self._attempt:
            self._attempt, self._seen = attempt, 0
        new = values[max(0, self._seen - first) :]
        self._seen = max(self._seen, first + len(values))
        self._ready += new

    def _outcome(self) -> Answers | None:
        """Return the answers of the finished task; None if its worker lacks placesim, and another worker must be asked."""
        assert self._future is not None
        if self._is_killed:
            raise EOFError
        if self._future.status in ("cancelled", "lost"):
            raise self._gone()
        from distributed import KilledWorker

        try:
            found = self._future.result()
        except UnavailableError:
            raise
        except KilledWorker:
            return Answers("", [], "its workers, more than once")
        except Exception as error:
            if self._future.status == "cancelled":
                raise self._gone() from None
            if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "placesim":
                self._asking.leave_out_strangers()
                return None
            return Answers("", [], f"{type(error).__name__}: {error}")
        assert isinstance(found, Answers)
        return found

    def _gone(self) -> UnavailableError:
        return UnavailableError(f"the cluster's scheduler at {self._asking.scheduler} is gone")

    def how_it_ended(self) -> str:
        """Return how the process ended, such as `signal 9` or `exit code 1`."""
        return self._ended

    def kill(self) -> None:
        """Kill the process; a caller waiting for an answer gets none."""
        self._is_killed = True
        with suppress(Exception):  # the cluster may be gone
            if self._future is not None:
                self._future.cancel()
        self._said.put(_END)

    def close(self) -> None:
        """End the process and release its resources."""
        self.kill()
        with suppress(Exception):  # the cluster may be gone
            if self._topic:
                self._asking.client.unsubscribe_topic(self._topic)
