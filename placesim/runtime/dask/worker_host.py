"""Sessions in a Dask worker: handlers that the worker's server calls for connections of the client and of other workers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from concurrent.futures import wait
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from threading import Lock
from time import perf_counter_ns
from typing import Any

from distributed import Worker
from distributed.comm.core import Comm, CommClosedError, connect
from distributed.core import Status

from placesim.core.process.deadlines import TURN_SECONDS
from placesim.runtime.dask.links import Link, can_be_direct, make_link
from placesim.runtime.dask.message_queue import Arrival, FailureLimit, Mail, StopMessage
from placesim.runtime.dask.messages import SESSION, TENSORS, SessionOpening
from placesim.runtime.dask.serialization import Parcel, align_array, copy_compact, unpack
from placesim.runtime.dask.shared_memory import Probe, SharedArray, SharedMemoryBorrower, SharedMemoryLender, can_borrow
from placesim.runtime.dask.worker_session import WorkerSession


def install_handlers(dask_worker: Worker) -> None:
    """Install the handlers in a worker, once. (A Dask plugin would be sent to workers without a session too.)"""
    if SESSION not in dask_worker.handlers:
        host = WorkerHost(dask_worker)
        dask_worker.handlers[SESSION] = host.serve_session
        dask_worker.handlers[TENSORS] = host.serve_tensors


class WorkerHost:
    """The sessions of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.sessions: dict[str, Post] = {}

    async def serve_session(self, comm: Comm, session: str, value: Parcel, may_be_direct: bool) -> Status:
        """Serve a connection of the client; the session ends with the connection."""
        opening = unpack(value)
        is_direct = may_be_direct and can_be_direct(comm)
        await comm.write(is_direct)
        # without an await from here on: the event loop would read the first bytes of the client's messages
        link, has_ended = _served(comm, is_direct=is_direct)
        post = self.sessions[session] = Post(self._worker, link, session, opening)
        link.listen(post.take)
        try:
            await has_ended.wait()
        finally:
            del self.sessions[session]
            post.close()
        return Status.dont_reply

    async def serve_tensors(self, comm: Comm, session: str, probe: Any, may_be_direct: bool) -> Status:
        """Serve a connection of another worker, which sends tensors of a session.

        The answer says whether the connection leaves the event loop, and whether this process can open the other worker's
        shared memory.
        """
        post = self.sessions.get(session)
        if post is None:  # the client has closed the session
            comm.abort()
            return Status.dont_reply
        is_direct = may_be_direct and can_be_direct(comm)
        await comm.write((is_direct, can_borrow(probe and Probe(*probe))))
        # without an await from here on: the event loop would read the first bytes of a tensor
        link, has_ended = _served(comm, is_direct=is_direct)
        post.senders.append(link)
        link.listen(post.arrive)
        del post
        await has_ended.wait()
        return Status.dont_reply


def _served(comm: Comm, *, is_direct: bool) -> tuple[Link, asyncio.Event]:
    """Return the link over a connection that another process has opened, and an event of its end."""
    has_ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def lost() -> None:
        loop.call_soon_threadsafe(has_ended.set)

    return make_link(comm, lost, is_direct=is_direct), has_ended


class Post:
    """Messages of a session in one worker: from the client and from other workers to the session's thread, and back."""

    def __init__(self, worker: Worker, client: Link, session: str, opening: SessionOpening) -> None:
        self._worker = worker
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._is_closed = False
        self.senders: list[Link] = []
        """Links on which other workers send tensors."""
        self._peers: dict[str, Link] = {}
        # with a memory limit nothing is lent, because lent memory would count too
        self._lender = SharedMemoryLender() if opening.config.memory_limit is None else None
        self._borrowers: set[str] = set()
        """Addresses of workers that can open the memory that this worker lends."""
        self._borrower = SharedMemoryBorrower()
        self._homes = opening.homes
        self._lock = Lock()
        """Lock for changes of the messages and of the counts of tensors."""
        self._mails: defaultdict[int, Mail] = defaultdict(SimpleQueue)
        self._counts: dict[int, list[int]] = {}
        self._ended = -1
        self._hosted = WorkerSession(opening, self._reply, self._send)

    # --- in the event loop

    def close(self) -> None:
        """End the session in this worker; called when the client has closed it or is gone."""
        self._is_closed = True
        with self._lock:
            self._ended = 1 << 62
            for mail in self._mails.values():
                mail.put(StopMessage())
        self._hosted.close()
        for link in (self._client, *self.senders, *self._peers.values()):
            link.abort()
        self._borrower.close()
        if self._lender is not None:
            self._lender.close()

    async def _connect(self, address: str) -> None:
        comm = await connect(address, **self._worker.security.get_connection_args("worker"))
        probe = None if self._lender is None else self._lender.probe()
        opened = {"op": TENSORS, "session": self._session, "reply": False, "may_be_direct": can_be_direct(comm)}
        await comm.write({**opened, "probe": probe})
        is_direct, can_share = await comm.read()
        # without an await from here on, as on the other end, which sends nothing after its answer
        if self._is_closed:
            comm.abort()
            return
        if can_share:
            self._borrowers.add(address)
        lost = partial(self._client.post, {"is": "severed"}, address)
        self._peers[address] = make_link(comm, lost, is_direct=is_direct)

    # --- in the thread or task that reads from a link

    def take(self, message: dict[str, Any], value: Parcel) -> None:
        """Handle a request of the client."""
        what, hosted = message["do"], self._hosted
        if what == "prepare":
            hosted.do(lambda: hosted.prepare(message["number"], unpack(value)))
        elif what == "adopt":
            hosted.do(lambda: hosted.adopt(unpack(value)))
        elif what == "save":
            hosted.do(lambda: hosted.save(message["step"]))
        elif what == "step":
            step = message["step"]
            with self._lock:
                mail = self._mails[step]
                self._counts = {number: counts for number, counts in self._counts.items() if number >= step}
            run = partial(hosted.run, step, message["number"], mail=mail, flows=message["flows"])
            hosted.do(lambda: run(unpack(value)))
        elif what == "probe":
            with self._lock:
                counts = tuple(self._count(message["step"]))
            self._client.post({"is": "count", "step": message["step"], "check": message["check"]}, counts)
        elif what == "clock":
            self._client.post({"is": "clock", "asked": message["asked"]}, perf_counter_ns())
        elif what == "tell":
            self._client.post({"is": "told"}, hosted.news())
        elif what == "limit":
            self._deliver(message["step"], FailureLimit(unpack(value)))
        elif what == "stop":
            self._deliver(message["step"], StopMessage())

    def arrive(self, message: dict[str, Any], tensor: Parcel) -> None:
        """Pass a tensor of another worker, with its key and generation, to its step; drop it if the step has ended here."""
        step, there = message["step"], perf_counter_ns()
        key, value, generation = unpack(tensor)
        found = self._borrower.borrow(value) if isinstance(value, SharedArray) else align_array(value)
        arrival = Arrival(key, found, generation, message["sent"], there)
        with self._lock:
            self._count(step)[1] += 1
        self._deliver(step, arrival)

    def _deliver(self, step: int, letter: Arrival | FailureLimit | StopMessage) -> None:
        with self._lock:
            if step > self._ended:
                self._mails[step].put(letter)

    def _count(self, step: int) -> list[int]:
        """Return how many tensors of a step were sent from this worker, and how many have arrived here, as a list."""
        return self._counts.setdefault(step, [0, 0])

    # --- in the session's thread

    def _reply(self, message: dict[str, Any], value: Any) -> None:
        if message["is"] == "ended":
            with self._lock:
                self._ended = max(self._ended, message["step"])
                self._mails.pop(message["step"], None)
            self._borrower.step_ended()
            if self._lender is not None:
                self._lender.step_ended()
        self._client.post(message, value)

    def _send(self, step: int, device: str, key: Any, value: Any, generation: int) -> None:
        """Send a tensor to a device of another worker, over the session's one connection to that worker."""
        with self._lock:
            self._count(step)[0] += 1
        address = self._homes[device]
        peer = self._peers.get(address) or self._joined(address)
        if peer is None:
            return
        sent = perf_counter_ns()
        given = self._lender.lend(value) if self._lender is not None and address in self._borrowers else value
        peer.post({"step": step, "sent": sent}, (key, copy_compact(given), generation))

    def _joined(self, address: str) -> Link | None:
        """Connect to another worker, and return the link. If this fails, tell the client and return None."""
        # without a new context, timers of the connection would keep the session alive after it is closed
        joining = Context().run(asyncio.run_coroutine_threadsafe, self._connect(address), self._loop)
        while not joining.done():
            wait((joining,), TURN_SECONDS)
        try:
            joining.result()
        except (CommClosedError, OSError):
            self._client.post({"is": "severed"}, address)
        return self._peers.get(address)
