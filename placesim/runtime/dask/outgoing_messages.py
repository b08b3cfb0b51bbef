"""Messages that threads queue, and that the event loop writes to a connection one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed.comm.core import Comm, CommClosedError

from placesim.runtime.dask.serialization import pack


class Outbox:
    """Queue of outgoing messages for a connection; after a failure, `lost` is called once."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, comm: Comm | None = None, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._loop = loop
        self._lost = lost
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._comm = comm
        self._task: asyncio.Task[None] | None = None

    def start(self, connect: Callable[[], Any] | None = None) -> None:
        """Begin to send; call it in the event loop. `connect` opens the connection if there is none."""
        self._task = self._loop.create_task(self._write(connect))

    def post(self, message: dict[str, Any], value: Any) -> None:
        """Send a message with a value; may be called in any thread."""
        packed = {**message, "value": pack(value)}
        with suppress(RuntimeError):  # the loop has ended, and with it whoever would read this
            self._loop.call_soon_threadsafe(self._queue.put_nowait, packed)

    def abort(self) -> None:
        """Stop sending; call it in the event loop."""
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
                del message  # its tensors are not held while the next one is waited for
        except (CommClosedError, OSError):
            self._lost()
