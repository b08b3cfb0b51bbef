"""Reference-counted buffers of device memory, like TensorFlow's TensorBuffer.

A tensor is a shape and a buffer.  A buffer lives as long as something refers to it: a tensor that will be read, a variable, a
constant or a fetch.  A view is a part of another buffer and keeps all of it alive.  Source: TensorFlow's framework/tensor.cc.
"""

from __future__ import annotations

from typing import Any, Protocol


class OutOfMemory(Exception):
    """Raised when a source lacks room for an allocation."""

    def __init__(self, size: int, source: BufferSource | None = None) -> None:
        super().__init__(size)
        self.size = size
        self.source = source


class BufferSource(Protocol):
    """Interface of a source of buffers."""

    def allocate(self, size: int, owner: str) -> Buffer:
        """Allocate a buffer of `size` bytes with one reference, for the node `owner`.  Raises OutOfMemory without room."""

    def free(self, buffer: Buffer) -> None:
        """Free a buffer that has no references any more."""


class Buffer:
    """A piece of memory: `size` bytes requested, `allocated` bytes given, at `place` in its source.

    `holders` counts the references to it.  `root` is the whole buffer of a view, and for other buffers the buffer itself.  A
    buffer without a source is memory that no allocator manages, such as a client's feed.  `contents` holds the tensors of a
    tensor list; an element is None if it was never set or has no elements.
    """

    __slots__ = ("_whole", "allocated", "contents", "holders", "owner", "place", "size", "source")

    def __init__(self, source: BufferSource | None, size: int, allocated: int = 0, owner: str = "", place: Any = None) -> None:
        self.source = source
        self.size = size
        self.allocated = allocated
        self.owner = owner
        self.place = place
        self.holders = 1
        self.contents: list[Buffer | None] | None = None
        self._whole: Buffer | None = None  # a buffer that referred to itself would only be freed by the garbage collector

    @property
    def root(self) -> Buffer:
        """The whole buffer if this is a view, else the buffer itself."""
        return self if self._whole is None else self._whole

    @property
    def is_sole(self) -> bool:
        """Whether exactly one tensor refers to the buffer, so that a kernel may write its output there."""
        root = self.root
        return self.holders == root.holders == 1 and root.source is not None

    @property
    def is_shared(self) -> bool:
        """Whether more than one tensor refers to the buffer, or to the whole buffer if this is a view."""
        return self.holders > 1 or self.root.holders > 1

    def view(self, size: int = 0) -> Buffer:
        """Return a view of `size` bytes with one reference; it keeps the whole buffer alive."""
        part = Buffer(self.source, size, owner=self.owner, place=self.place)
        part._whole = self.root
        part._whole.holders += 1
        return part

    def hold(self) -> Buffer:
        """Add a reference and return the buffer."""
        self.holders += 1
        return self

    def release(self) -> None:
        """Remove a reference; the last one frees the memory."""
        self.holders -= 1
        if self.holders:
            return
        if self._whole is not None:
            self._whole.release()
            return
        for held in self.contents or ():
            if held is not None:
                held.release()
        if self.source is not None:
            self.source.free(self)


def foreign_buffer(size: int) -> Buffer:
    """Return a buffer for memory owned by a client. Kernels never write to this memory, and no source frees it."""
    return Buffer(None, size)
