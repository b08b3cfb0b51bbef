"""Links, which carry messages between two processes. Any thread may send a message; received messages are passed to a function.

A connection without TLS is taken out of Dask's event loop. The thread that sends a message then writes it to the socket itself,
and a thread of the link reads what arrives. All other connections stay in the event loop.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import islice
from threading import Condition, Thread
from typing import Any, Protocol, TypeAlias

import numpy as np
from distributed.comm.core import Comm, CommClosedError
from distributed.comm.tcp import TCP
from distributed.protocol import to_serialize

from placesim.core.operating_system import SENDS_WITHOUT_WAITING, send_without_waiting
from placesim.runtime.dask.serialization import Parcel, pack

Take: TypeAlias = "Callable[[dict[str, Any], Parcel], None]"
"""Function that receives a message, and its value still packed."""

_BUFFER_BYTES = 1 << 16
_MOST_FRAMES = 256
"""Maximum number of frames in one call of the system, which permits at least 1024 on Linux."""


class Link(Protocol):
    """One connection; its function `lost` is called once, when the connection has ended, failed or been aborted."""

    def listen(self, take: Take) -> None:
        """Start a thread or task that reads messages and passes them to `take`; must be called in the event loop."""

    def post(self, message: dict[str, Any], value: Any) -> None:
        """Send a message with a value, without waiting for its receiver; may be called in any thread."""

    def abort(self) -> None:
        """Close the connection without sending the rest; must be called in the event loop."""


def can_be_direct(comm: Comm) -> bool:
    """Whether this process can take a connection out of the event loop; both of its ends must do so."""
    return SENDS_WITHOUT_WAITING and type(comm) is TCP


def make_link(comm: Comm, lost: Callable[[], None] = lambda: None, *, is_direct: bool) -> Link:
    """Return the link over a connection; must be called in the event loop, when nothing is in transit to this process.

    The event loop reads ahead, also while nobody waits for a message, and what it has read is lost to a direct link. So no
    `await` may lie between the last message over `comm` and this call. The end that reads the last message takes its
    connection later than the other end, which must not send anything before it has received a message.
    """
    return DirectLink(_take_socket(comm), lost) if is_direct else LoopLink(comm, lost)


def _take_socket(comm: Comm) -> socket.socket:
    """Return the socket of a connection, which the event loop no longer watches."""
    assert isinstance(comm, TCP)
    stream = comm.stream
    if stream is None or stream.writing():
        raise CommClosedError("a connection was lost while it was opened")
    taken: socket.socket = stream.socket.dup()
    comm.abort()
    taken.setblocking(True)
    return taken


class DirectLink:
    """A link that uses its socket without an event loop.

    On the wire, a message is the number of its frames, their sizes in bytes, and the frames: first the pickled message, then
    those of its value.
    """

    def __init__(self, connection: socket.socket, lost: Callable[[], None]) -> None:
        self._socket = connection
        weakref.finalize(self, connection.close)  # when no thread uses the link any more
        self._lost = lost
        self._is_over = False
        self._changed = Condition()
        self._rest: deque[memoryview] = deque()
        """Frames that the system could not take at once; a thread sends them."""
        self._writer: Thread | None = None

    def listen(self, take: Take) -> None:
        Thread(target=self._read, args=(take,), name="placesim-reader", daemon=True).start()

    def post(self, message: dict[str, Any], value: Any) -> None:
        frames = [pickle.dumps(message, 5), *pack(value).frames]
        header = struct.pack(f"<{len(frames) + 1}Q", len(frames), *map(len, frames))
        try:
            with self._changed:
                if not self._is_over:
                    self._send([header, *frames])
        except OSError:
            self.abort()
        except BaseException:  # an interrupt may have left half of a message
            self.abort()
            raise

    def abort(self) -> None:
        with self._changed:
            was_over, self._is_over = self._is_over, True
            self._rest.clear()
            self._changed.notify()
        if not was_over:
            with suppress(OSError):  # the other end has closed it
                self._socket.shutdown(socket.SHUT_RDWR)
            self._lost()

    # --- writing

    def _send(self, frames: Sequence[Any]) -> None:
        """Send frames without waiting; a thread sends the frames that the system can't take at once. Raises OSError."""
        views = deque(memoryview(frame) for frame in frames if len(frame))
        if not self._rest:
            with suppress(BlockingIOError):
                _drop_sent(views, send_without_waiting(self._socket, tuple(islice(views, _MOST_FRAMES))))
        if views:
            self._rest += views
            if self._writer is None:
                self._writer = Thread(target=self._write, name="placesim-writer", daemon=True)
                self._writer.start()
            self._changed.notify()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._rest and not self._is_over:
                    self._changed.wait()
                if self._is_over:
                    return
                view = self._rest[0]
            try:
                self._socket.sendall(view)
            except OSError:
                self.abort()
                return
            del view  # do not hold its tensor while waiting for the next message
            with self._changed:
                if self._rest:  # else the link was aborted
                    self._rest.popleft()

    # --- reading

    def _read(self, take: Take) -> None:
        reader = _Reader(self._socket)
        try:
            while True:
                message, *frames = reader.frames()
                take(pickle.loads(message), Parcel(frames))
                del message, frames  # do not hold a tensor while waiting for the next message
        except (EOFError, OSError):
            pass
        finally:
            self.abort()


def _drop_sent(views: deque[memoryview], sent: int) -> None:
    """Remove the first `sent` bytes."""
    while sent:
        first = views.popleft()
        if sent < first.nbytes:
            views.appendleft(first[sent:])
            return
        sent -= first.nbytes


class _Reader:
    """Reads frames from a socket: small ones together, and large ones directly into their own memory."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._start = self._end = 0

    def frames(self) -> list[Any]:
        """Return the frames of the next message. Raises EOFError at the end of the connection, and OSError if it fails."""
        (count,) = struct.unpack("<Q", self._bytes(8))
        return [self._bytes(size) for size in struct.unpack(f"<{count}Q", self._bytes(8 * count))]

    def _bytes(self, size: int) -> bytearray | memoryview:
        given = self._buffer[self._start : self._end]
        if size <= given.nbytes:
            self._start += size
            return bytearray(given[:size])
        found = np.empty(size, np.uint8).data  # a bytearray would be filled with zeros
        have = given.nbytes
        found[:have] = given
        self._start = self._end = 0
        while have < size:
            if size - have >= _BUFFER_BYTES:
                have += self._received(found[have:])
                continue
            self._end = self._received(self._buffer)
            self._start = min(self._end, size - have)
            found[have : have + self._start] = self._buffer[: self._start]
            have += self._start
        return found

    def _received(self, room: memoryview) -> int:
        count = self._socket.recv_into(room)
        if not count:
            raise EOFError
        return count


class LoopLink:
    """A link whose connection stays in the event loop, which writes one message after another."""

    def __init__(self, comm: Comm, lost: Callable[[], None]) -> None:
        self._comm = comm
        self._lost = lost
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._start(self._write())

    def listen(self, take: Take) -> None:
        self._start(self._read(take))

    def post(self, message: dict[str, Any], value: Any) -> None:
        packed = {**message, "value": to_serialize(pack(value))}
        with suppress(RuntimeError):  # the event loop has ended, so no process would read the message
            self._loop.call_soon_threadsafe(self._queue.put_nowait, packed)

    def abort(self) -> None:
        if not self._is_over:
            self._is_over = True
            for task in self._tasks:
                task.cancel()
            self._comm.abort()
            self._lost()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(lambda _: self.abort())
        self._tasks.append(task)

    async def _write(self) -> None:
        with suppress(CommClosedError, OSError):
            while True:
                message = await self._queue.get()
                await self._comm.write(message)
                del message  # do not hold its tensors while waiting for the next message

    async def _read(self, take: Take) -> None:
        with suppress(CommClosedError, OSError):
            while True:
                message = await self._comm.read()
                value = message.pop("value")
                take(message, value)
                del message, value  # do not hold a tensor while waiting for the next message
