"""Outgoing messages: any thread may queue one, and the event loop writes them to the connection one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed.comm.core import Comm, CommClosedError

from placesim.runtime.dask.serialization import pack


class Outbox:
    """Queue of outgoing messages for a connection; if the connection fails, `lost` is called once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, comm: Comm | None = None, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._loop = loop
        self._lost = lost
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._comm = comm
        self._task: asyncio.Task[None] | None = None

    def start(self, connect: Callable[[], Any] | None = None) -> None:
        """Begin to send; must be called in the event loop. If there is no connection, `connect` opens it."""
        self._task = self._loop.create_task(self._write(connect))

    def post(self, message: dict[str, Any], value: Any) -> None:
        """Queue a message with a value; may be called in any thread."""
        packed = {**message, "value": pack(value)}
        with suppress(RuntimeError):  # the event loop has ended, so no process would read the message
            self._loop.call_soon_threadsafe(self._queue.put_nowait, packed)

    def abort(self) -> None:
        """Stop sending, and close the connection; must be called in the event loop."""
        if self._task is not None:
            self._task.cancel()
        if self._comm is not None:
            self._comm.abort()

    async def _write(self, connect: Callable[[], Any] | None) -> None:
        try:
            if self._comm is None and connect is not None:
                self._comm = await connect()
            assert self._comm is not None
            while True:
                message = await self._queue.get()
                await self._comm.write(message)
                del message  # do not hold its tensors while waiting for the next message
        except (CommClosedError, OSError):
            self._lost()
