"""Reference-counted buffers of device memory, like TensorFlow's TensorBuffer.

A tensor is a shape and a buffer.  A buffer lives as long as anything holds it: a tensor that still must be read, a variable,
a constant, a fetch.  A view is a part of another buffer and keeps all of it alive.  Source: TensorFlow's framework/tensor.cc.
"""

from __future__ import annotations

from typing import Any, Protocol


class OutOfMemory(Exception):
    """A source lacks room for an allocation."""

    def __init__(self, size: int, source: BufferSource | None = None) -> None:
        super().__init__(size)
        self.size = size
        self.source = source


class BufferSource(Protocol):
    """Source of buffers."""

    def allocate(self, size: int, owner: str) -> Buffer:
        """Allocate a buffer of `size` bytes with one reference, for the node `owner`.  Raises OutOfMemory."""

    def free(self, buffer: Buffer) -> None:
        """Take back a buffer that nobody holds any more."""


class Buffer:
    """A piece of memory: `size` bytes requested, `allocated` bytes given, at `place` in its source.

    `holders` counts the tensors and keepers that refer to it.  A view has the whole buffer as `root`; any other is its own.
    Without a source it is memory that no allocator knows, such as what a client feeds.  `contents`: the tensors of a tensor
    list that lies in it, which it holds; None for one that was never set or has no elements.
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
        self._whole: Buffer | None = None  # a buffer that held itself would stay until garbage is collected

    @property
    def root(self) -> Buffer:
        """The whole that it is a part of, or itself."""
        return self if self._whole is None else self._whole

    @property
    def is_sole(self) -> bool:
        """Whether exactly one tensor refers to it, so that a kernel may write its output there."""
        root = self.root
        return self.holders == root.holders == 1 and root.source is not None

    @property
    def is_shared(self) -> bool:
        """Whether more than one tensor refers to it, or to the buffer that it is a part of."""
        return self.holders > 1 or self.root.holders > 1

    def view(self, size: int = 0) -> Buffer:
        """Return a view of `size` bytes with one reference; it keeps the whole buffer alive."""
        part = Buffer(self.source, size, owner=self.owner, place=self.place)
        part._whole = self.root
        part._whole.holders += 1
        return part

    def hold(self) -> Buffer:
        """One more holder."""
        self.holders += 1
        return self

    def release(self) -> None:
        """Remove a holder; the last one frees the memory."""
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
    """Memory owned by a client: kernels never write to it, and it is not freed here."""
    return Buffer(None, size)
