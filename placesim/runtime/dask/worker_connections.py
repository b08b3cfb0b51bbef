"""Connections of the client to a session's workers, and a queue of the workers' messages."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import Any, NamedTuple

from distributed import Client
from distributed.comm.core import CommClosedError, connect
from distributed.protocol import to_serialize

from placesim.core.errors import UnavailableError
from placesim.core.process.deadlines import TURN_SECONDS
from placesim.runtime.dask.links import Link, can_be_direct, make_link
from placesim.runtime.dask.messages import SESSION, SessionOpening
from placesim.runtime.dask.serialization import Parcel, pack, unpack
from placesim.runtime.dask.worker_host import install_handlers

CLOSING_SECONDS = 2.0
"""Maximum seconds to wait until the workers have learned that a session is closed."""


class WorkerMessage(NamedTuple):
    """A worker's message, with its value and arrival time in ns; if the connection broke, `message["is"]` is "lost"."""

    address: str
    message: Mapping[str, Any]
    value: Any
    moment: int = 0


class WorkerConnections:
    """One connection to each worker of a session."""

    def __init__(self, client: Client, openings: Mapping[str, SessionOpening]) -> None:
        """Open a session on workers, by address. Raises UnavailableError if a worker can't be reached."""
        self._client = client
        self._inbox: SimpleQueue[WorkerMessage] = SimpleQueue()
        self._links: dict[str, Link] = {}
        self._id = uuid.uuid4().hex
        self._is_closed = False
        self.gone: set[str] = set()
        try:
            client.run(install_handlers, workers=list(openings))
        except (CommClosedError, OSError) as error:
            raise UnavailableError(f"lost a worker while opening the session: {error}") from None
        try:
            client.sync(self._open, openings)
        except BaseException:  # after a deadline or an interrupt, the event loop would go on opening the session
            self.close()
            raise

    def tell(self, address: str, message: Mapping[str, Any], value: Any = None) -> None:
        """Send a message to a worker."""
        self._links[address].post(dict(message), value)

    def hear(self) -> WorkerMessage:
        """Return the next message from any worker."""
        while True:
            with suppress(Empty):  # between two waits, an interrupt can reach this thread
                return self.hear_within(TURN_SECONDS)

    def hear_within(self, seconds: float) -> WorkerMessage:
        """Return the next message from any worker. Raises Empty if there is none within `seconds`."""
        said = self._inbox.get(timeout=seconds)
        if said.message["is"] == "lost":
            self.gone.add(said.address)
        return said

    def close(self) -> None:
        """End the session in all workers; a worker that does not answer learns of it when it next reads."""
        with suppress(Exception):  # the cluster may be gone
            self._client.sync(self._close, callback_timeout=CLOSING_SECONDS)

    # --- in the client's event loop

    async def _open(self, openings: Mapping[str, SessionOpening]) -> None:
        await asyncio.gather(*(self._open_one(address, opening) for address, opening in openings.items()))

    async def _open_one(self, address: str, opening: SessionOpening) -> None:
        try:
            comm = await connect(address, **self._client.security.get_connection_args("client"))
            opened = {"op": SESSION, "session": self._id, "may_be_direct": can_be_direct(comm)}
            await comm.write({**opened, "value": to_serialize(pack(opening))})
            is_direct = await comm.read()
            # without an await from here on, as on the other end, which sends nothing until it is asked
            if self._is_closed:
                comm.abort()
                return
            link = make_link(comm, partial(self._inbox.put, WorkerMessage(address, {"is": "lost"}, None)), is_direct=is_direct)
        except (CommClosedError, OSError) as error:
            raise UnavailableError(f"cannot reach worker {address}: {error}") from None
        self._links[address] = link
        link.listen(partial(self._take, address))

    async def _close(self) -> None:
        self._is_closed = True
        for link in self._links.values():
            link.abort()

    # --- in a link's thread, or in the client's event loop

    def _take(self, address: str, message: dict[str, Any], value: Parcel) -> None:
        self._inbox.put(WorkerMessage(address, message, unpack(value), perf_counter_ns()))
