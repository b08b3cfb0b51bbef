"""Storage of lookup tables: tables that are initialized once, mutable tables, and dense hash tables.

Keys are Python scalars (in a dense table tuples of scalars), values are Python scalars or arrays.  Source: TensorFlow's
`lookup_table_op.cc`, `initializable_lookup_table.cc`, `lookup_interface.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import AbortedError, FailedPreconditionError, InvalidArgumentError, UnimplementedError
from placesim.core.tensor_fields import OBJECT_BYTES
from placesim.ops.kernels.kernel import Tensor, elements
from placesim.ops.kernels.shapes import format_dims
from placesim.ops.kernels.string.hashing import murmur_hash64
from placesim.ops.process.memory_limit import check_elements, check_room

Exported = tuple[Tensor, Tensor]
"""Keys and values."""

MASK_64 = (1 << 64) - 1


class LookupTable:
    """Base of all tables: types, the shapes of one key and one value, and the checks of inputs."""

    def __init__(
        self, key_dtype: DataType, value_dtype: DataType, value_shape: tuple[int, ...] = (), key_shape: tuple[int, ...] = ()
    ) -> None:
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.key_shape = key_shape
        self.value_shape = value_shape

    def __len__(self) -> int:
        raise NotImplementedError

    def find(self, keys: Tensor, default: Tensor) -> Tensor:
        """The value of each key; a missing key gets its default. `default` has one value for all keys, or one for each.

        Raises FailedPreconditionError for a table that is not initialized.
        """
        raise NotImplementedError

    def insert(self, keys: Tensor, values: Tensor) -> None:
        """Insert or replace values. Raises UnimplementedError for a `FixedTable`."""
        raise NotImplementedError

    def remove(self, keys: Tensor) -> None:
        """Remove keys. Raises UnimplementedError for a `FixedTable`."""
        raise NotImplementedError

    def fill(self, keys: Tensor, values: Tensor) -> None:
        """Replace the table's whole content."""
        raise NotImplementedError

    def export(self) -> Exported:
        """All keys and values. Raises AbortedError for a table that is not initialized."""
        raise NotImplementedError

    # --- checks

    def check_keys(self, keys: Tensor) -> None:
        """Raises InvalidArgumentError unless the keys' shape is `[..., *key_shape]`."""
        rank = len(self.key_shape)
        if keys.ndim < rank or keys.shape[keys.ndim - rank :] != self.key_shape:
            raise InvalidArgumentError(
                f"Input key shape {format_dims(keys.shape)} must end with the table's key shape {format_dims(self.key_shape)}"
            )

    def prefix(self, keys: Tensor) -> tuple[int, ...]:
        """The leading dimensions of a tensor of keys, without the shape of a key."""
        return tuple(keys.shape[: keys.ndim - len(self.key_shape)])

    def check_values(self, keys: Tensor, values: Tensor) -> None:
        """Raises InvalidArgumentError unless there is a value for each key."""
        self.check_keys(keys)
        expected = (*self.prefix(keys), *self.value_shape)
        if values.shape != expected:
            raise InvalidArgumentError(f"Expected shape {format_dims(expected)} for value, got {format_dims(values.shape)}")

    def check_import(self, keys: Tensor, values: Tensor) -> None:
        """Raises InvalidArgumentError unless the shapes are those of an export."""
        self.check_values(keys, values)

    def check_default(self, keys: Tensor, default: Tensor) -> None:
        """Raises InvalidArgumentError unless there is one value, or one for each key."""
        self.check_keys(keys)
        whole = (*self.prefix(keys), *self.value_shape)
        if default.shape not in (self.value_shape, whole):
            raise InvalidArgumentError(
                f"Expected shape {format_dims(self.value_shape)} or {format_dims(whole)} for default value, "
                f"got {format_dims(default.shape)}"
            )


def _scalars(tensor: Tensor) -> list[Any]:
    found: list[Any] = tensor.reshape(-1).tolist()
    return found


def _tensor(values: Iterable[Any], dtype: DataType, shape: Sequence[int]) -> Tensor:
    found = np.empty(elements(tuple(shape)), dtype.numpy)
    for index, value in enumerate(values):
        found[index] = value
    return found.reshape(tuple(shape))


class FixedTable(LookupTable):
    """A table that is initialized once, and then never changes."""

    def __init__(self, key_dtype: DataType, value_dtype: DataType) -> None:
        super().__init__(key_dtype, value_dtype)
        self._values: dict[Any, Any] = {}
        self.is_initialized = False

    def __len__(self) -> int:
        return len(self._values) if self.is_initialized else 0

    def find(self, keys: Tensor, default: Tensor) -> Tensor:
        if not self.is_initialized:
            raise FailedPreconditionError("Table not initialized.")
        missing = _scalars(default)[0] if default.size else None
        values = self._values
        return _tensor([values.get(key, missing) for key in _scalars(keys)], self.value_dtype, keys.shape)

    def insert(self, keys: Tensor, values: Tensor) -> None:
        raise UnimplementedError("Insert not supported by InitializableLookupTable implementations")

    def remove(self, keys: Tensor) -> None:
        raise UnimplementedError("Remove not supported by InitializableLookupTable implementations")

    def fill(self, keys: Tensor, values: Tensor) -> None:
        if keys.shape != values.shape:
            shapes = f"{format_dims(keys.shape)} vs {format_dims(values.shape)}"
            raise InvalidArgumentError(f"keys and values should have the same dimension.{shapes}")
        if not keys.size:
            raise InvalidArgumentError("keys and values cannot be empty tensors.")
        self.initialize(_scalars(keys), lambda: zip(_scalars(keys), _scalars(values), strict=True))

    def initialize(self, lines: Sequence[Any], pairs: Callable[[], Iterable[tuple[Any, Any]]]) -> None:
        """Initialize the table with `pairs()`, (key, value) for each line; if it is initialized, only compare the line count.

        Raises FailedPreconditionError for another number, and for two values of one key.
        """
        if self.is_initialized:
            if len(lines) != len(self):
                raise FailedPreconditionError("Table was already initialized with different data.")
            return
        for key, value in pairs():
            if self._values.setdefault(key, value) != value:
                raise FailedPreconditionError(
                    f"HashTable has different value for same key. Key {_shown(key)} has {_shown(self._values[key])} "
                    f"and trying to add value {_shown(value)}"
                )
        self.is_initialized = True

    def export(self) -> Exported:
        if not self.is_initialized:
            raise AbortedError("HashTable is not initialized.")
        size = (len(self._values),)
        return _tensor(self._values, self.key_dtype, size), _tensor(self._values.values(), self.value_dtype, size)


def _shown(value: Any) -> str:
    # C++'s format: six digits of a float, booleans as numbers
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return f"{value:g}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


class ChangingTable(LookupTable):
    """A mutable table, whose values are scalars or vectors."""

    def __init__(self, key_dtype: DataType, value_dtype: DataType, value_shape: tuple[int, ...] = ()) -> None:
        super().__init__(key_dtype, value_dtype, value_shape)
        self._values: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._values)

    def _rows(self, values: Tensor) -> list[Any]:
        return list(values.reshape(-1, *self.value_shape)) if self.value_shape else _scalars(values)

    def find(self, keys: Tensor, default: Tensor) -> Tensor:
        names, rows = _scalars(keys), self._rows(default)
        if len(rows) != len(names):
            rows = rows[:1] * len(names)
        found = [self._values.get(name, row) for name, row in zip(names, rows, strict=True)]
        if not self.value_shape:
            return _tensor(found, self.value_dtype, keys.shape)
        return np.array(found, self.value_dtype.numpy).reshape(*keys.shape, *self.value_shape)

    def insert(self, keys: Tensor, values: Tensor) -> None:
        self._values.update(zip(_scalars(keys), self._rows(values), strict=True))

    def remove(self, keys: Tensor) -> None:
        for key in _scalars(keys):
            self._values.pop(key, None)

    def fill(self, keys: Tensor, values: Tensor) -> None:
        self._values.clear()
        self.insert(keys, values)

    def export(self) -> Exported:
        size = len(self._values)
        keys = _tensor(self._values, self.key_dtype, (size,))
        if not self.value_shape:
            return keys, _tensor(self._values.values(), self.value_dtype, (size,))
        rows = list(self._values.values())
        return keys, np.array(rows, self.value_dtype.numpy).reshape(size, *self.value_shape)


class DenseTable(LookupTable):
    """A hash table with open addressing and quadratic probing; two reserved keys mark empty and deleted buckets.

    An export returns the buckets, so their order must be TensorFlow's.
    """

    def __init__(
        self,
        dtypes: tuple[DataType, DataType],
        value_shape: tuple[int, ...],
        empty: Tensor,
        deleted: Tensor,
        buckets: int,
        max_load: float,
    ) -> None:
        super().__init__(*dtypes, value_shape, tuple(empty.shape))
        self._empty, self._deleted = tuple(_scalars(empty)), tuple(_scalars(deleted))
        self._max_load = max_load
        self._allocate(buckets)

    def __len__(self) -> int:
        return len(self._places)

    def _allocate(self, buckets: int) -> None:
        if buckets < 4 or buckets & (buckets - 1):
            raise InvalidArgumentError(f"Number of buckets must be at least 4 and a power of 2, got: {buckets}")
        check_elements(buckets, OBJECT_BYTES)
        check_room((buckets, elements(self.value_shape)), self.value_dtype)
        self._keys: list[tuple[Any, ...]] = [self._empty] * buckets
        blank = b"" if self.value_dtype is STRING else 0
        self._values = np.full((buckets, elements(self.value_shape)), blank, self.value_dtype.numpy)
        self._places: dict[tuple[Any, ...], int] = {}

    def _split(self, keys: Tensor) -> list[tuple[Any, ...]]:
        count, size = (keys.shape[0] if keys.ndim else 1), elements(self.key_shape)
        if keys.size != count * size:
            expected = format_dims((count, *self.key_shape))
            raise InvalidArgumentError(f"Expected key shape {expected} got {format_dims(keys.shape)}")
        flat = _scalars(keys)
        return [tuple(flat[at : at + size]) for at in range(0, count * size, size)]

    def _check_usable(self, key: tuple[Any, ...]) -> None:
        for name, reserved in (("empty", self._empty), ("deleted", self._deleted)):
            if key == reserved:
                raise InvalidArgumentError(f"Using the {name}_key as a table key is not allowed")

    def find(self, keys: Tensor, default: Tensor) -> Tensor:
        missing = default.reshape(-1)[: elements(self.value_shape)]
        rows = []
        for key in self._split(keys):
            self._check_usable(key)
            place = self._places.get(key)
            rows.append(missing if place is None else self._values[place])
        shape = (*self.prefix(keys), *self.value_shape)
        return np.array(rows, self.value_dtype.numpy).reshape(shape)

    def insert(self, keys: Tensor, values: Tensor) -> None:
        names = self._split(keys)
        buckets = len(self._keys)
        # like TensorFlow, count existing keys as new, and grow before keys are checked
        while len(self) + len(names) > buckets * self._max_load:
            buckets <<= 1
        if buckets != len(self._keys):
            self._grow(buckets)
        rows = values.reshape(len(names), elements(self.value_shape))
        for key, row in zip(names, rows, strict=True):
            self._check_usable(key)
            self._put(key, row)

    def _grow(self, buckets: int) -> None:
        keys, values = self._keys, self._values
        self._allocate(buckets)
        for key, row in zip(keys, values, strict=True):
            if key not in (self._empty, self._deleted):
                self._put(key, row)

    def _put(self, key: tuple[Any, ...], row: Tensor) -> None:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._free_bucket(key)
            self._keys[place] = key
        self._values[place] = row

    def _free_bucket(self, key: tuple[Any, ...]) -> int:
        mask = len(self._keys) - 1
        # with steps of 1, 2, 3, ... the probes reach each bucket, as the number of buckets is a power of 2
        place, probes = _hash_key(key) & mask, 0
        while self._keys[place] not in (self._empty, self._deleted):
            probes += 1
            place = (place + probes) & mask
        return place

    def remove(self, keys: Tensor) -> None:
        for key in self._split(keys):
            self._check_usable(key)
            place = self._places.pop(key, None)
            # an export returns the mark
            if place is not None:
                self._keys[place] = self._deleted

    def check_import(self, keys: Tensor, values: Tensor) -> None:
        # an export adds a last dimension of 1 to scalar keys and values
        if self.key_shape:
            self.check_keys(keys)
        expected = (*keys.shape[: keys.ndim - max(len(self.key_shape), 1)], *(self.value_shape or (1,)))
        if values.shape != expected:
            raise InvalidArgumentError(f"Expected shape {format_dims(expected)} for value, got {format_dims(values.shape)}")

    def fill(self, keys: Tensor, values: Tensor) -> None:
        """Replace the buckets by those of an export."""
        size = elements(self.key_shape)
        flat = _scalars(keys)
        self._keys = [tuple(flat[at : at + size]) for at in range(0, len(flat), size)]
        self._values = values.reshape(len(self._keys), -1).copy()
        self._places = {key: at for at, key in enumerate(self._keys) if key not in (self._empty, self._deleted)}

    def export(self) -> Exported:
        shape = (len(self._keys), elements(self.key_shape))
        return _tensor((part for key in self._keys for part in key), self.key_dtype, shape), self._values.copy()


def _hash_key(key: tuple[Any, ...]) -> int:
    # the hash of a number is the number
    parts = [murmur_hash64(part) if isinstance(part, bytes) else int(part) & MASK_64 for part in key]
    if len(parts) == 1:
        return parts[0]
    found = 0
    for part in parts:
        found ^= (part + 0x9E3779B97F4A7800 + (found << 10) + (found >> 4)) & MASK_64
    return found
