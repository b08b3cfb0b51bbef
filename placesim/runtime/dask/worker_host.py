"""Sessions in a Dask worker: handlers that the worker's server calls for connections of the client and of other workers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any

from distributed import Worker
from distributed.comm.core import Comm, CommClosedError, connect
from distributed.core import Status

from placesim.runtime.dask.message_queue import Arrival, FailureLimit, Mail, StopMessage
from placesim.runtime.dask.messages import SESSION, TENSORS, SessionOpening
from placesim.runtime.dask.outgoing_messages import Outbox
from placesim.runtime.dask.serialization import Parcel, align_array, copy_compact, unpack
from placesim.runtime.dask.shared_memory import Probe, SharedMemoryLender, can_borrow
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

    async def serve_session(self, comm: Comm, session: str, value: Parcel) -> Status:
        """Serve a connection of the client; the session ends with the connection."""
        post = Post(self._worker, comm, session, unpack(value))
        self.sessions[session] = post
        await comm.write({"is": "open"})
        try:
            while True:
                post.take(await comm.read())
        except CommClosedError:
            pass  # the client is gone
        finally:
            del self.sessions[session]
            post.close()
        return Status.dont_reply

    async def serve_tensors(self, comm: Comm, session: str, probe: Any) -> Status:
        """Serve a connection of another worker, which sends tensors of a session.

        The answer says whether this process can open the other worker's shared memory.
        """
        try:
            await comm.write(can_borrow(probe and Probe(*probe)))
            while True:
                message = await comm.read()
                post = self.sessions.get(session)
                if post is None:
                    break
                post.arrive(message["step"], unpack(message["value"]), message["sent"])
                del message, post  # do not hold the tensor while waiting for the next message
        except (CommClosedError, OSError):
            pass  # the other worker has closed the session, or is gone
        return Status.dont_reply


class Post:
    """Messages of a session in one worker: from the client and from other workers to the session's thread, and back."""

    def __init__(self, worker: Worker, comm: Comm, session: str, opening: SessionOpening) -> None:
        self._worker = worker
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._client = Outbox(self._loop, comm)
        self._client.start()
        self._peers: dict[str, Outbox] = {}
        # with a memory limit nothing is lent, because lent memory would count too
        self._lender = SharedMemoryLender() if opening.config.memory_limit is None else None
        self._borrowers: set[str] = set()
        self._homes = opening.homes
        self._mails: defaultdict[int, Mail] = defaultdict(SimpleQueue)
        self._counts: dict[int, list[int]] = {}
        self._ended = -1
        self._hosted = WorkerSession(opening, self._reply, self._send)

    # --- in the event loop

    def take(self, message: dict[str, Any]) -> None:
        """Handle a request of the client."""
        what, hosted = message["do"], self._hosted
        if what == "prepare":
            hosted.do(lambda: hosted.prepare(message["number"], unpack(message["value"])))
        elif what == "adopt":
            hosted.do(lambda: hosted.adopt(unpack(message["value"])))
        elif what == "save":
            hosted.do(lambda: hosted.save(message["step"]))
        elif what == "step":
            step, mail = message["step"], self._mails[message["step"]]
            self._counts = {number: counts for number, counts in self._counts.items() if number >= step}
            run = partial(hosted.run, step, message["number"], mail=mail, flows=message["flows"])
            hosted.do(lambda: run(unpack(message["value"])))
        elif what == "probe":
            self._client.post({"is": "count", "step": message["step"]}, tuple(self._count(message["step"])))
        elif what == "clock":
            self._client.post({"is": "clock", "asked": message["asked"]}, perf_counter_ns())
        elif what == "tell":
            self._client.post({"is": "told"}, hosted.news())
        elif message["step"] > self._ended:
            mail = self._mails[message["step"]]
            if what == "limit":
                mail.put(FailureLimit(unpack(message["value"])))
            elif what == "stop":
                mail.put(StopMessage())

    def arrive(self, step: int, tensor: tuple[Any, Any, int], sent: int) -> None:
        """Pass a tensor of another worker, with its key and generation, to its step; drop it if the step has ended here."""
        there = perf_counter_ns()
        self._count(step)[1] += 1
        if step > self._ended:
            key, value, generation = tensor
            self._mails[step].put(Arrival(key, align_array(value), generation, sent, there))

    def _count(self, step: int) -> list[int]:
        """Return how many tensors of a step were sent from this worker, and how many have arrived here, as a list."""
        return self._counts.setdefault(step, [0, 0])

    def close(self) -> None:
        """End the session in this worker; called when the client has closed it or is gone."""
        self._ended = 1 << 62
        for mail in self._mails.values():
            mail.put(StopMessage())
        self._hosted.close()
        self._client.abort()
        for peer in self._peers.values():
            peer.abort()
        if self._lender is not None:
            self._lender.close()

    # --- in the session's thread

    def _reply(self, message: dict[str, Any], value: Any) -> None:
        if message["is"] == "ended":
            self._ended = max(self._ended, message["step"])
            self._mails.pop(message["step"], None)
            if self._lender is not None:
                self._lender.step_ended()
        self._client.post(message, value)

    def _send(self, step: int, device: str, key: Any, value: Any, generation: int) -> None:
        """Send a tensor to a device of another worker, over the session's one connection to that worker."""
        self._count(step)[0] += 1
        address = self._homes[device]
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Outbox(self._loop, lost=partial(self._client.post, {"is": "severed"}, address))
            # without a new context, timers of the connection would keep the session alive after it is closed
            self._loop.call_soon_threadsafe(peer.start, partial(self._connect, address), context=Context())
        sent = perf_counter_ns()
        given = self._lender.lend(value) if self._lender is not None and address in self._borrowers else value
        peer.post({"step": step, "sent": sent}, (key, copy_compact(given), generation))

    async def _connect(self, address: str) -> Comm:
        comm = await connect(address, **self._worker.security.get_connection_args("worker"))
        probe = None if self._lender is None else self._lender.probe()
        await comm.write({"op": TENSORS, "session": self._session, "reply": False, "probe": probe})
        if await comm.read():
            self._borrowers.add(address)
        return comm
