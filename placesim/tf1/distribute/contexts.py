"""The strategy in force in a thread: a script enters it, and its replicas run under it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import placesim.tf1 as tf


class Mode(NamedTuple):
    """An active strategy. `replica` is None outside of replicas, where values of all replicas are combined."""

    strategy: Any
    replica: ReplicaContext | None = None


class _Modes(threading.local):
    """The modes that a thread has entered, and the replica whose variables it updates."""

    def __init__(self) -> None:
        self.entered: list[Mode] = []
        self.updated_replica: int | None = None


_modes = _Modes()


class ReplicaContext:
    """`tf.distribute.ReplicaContext`: one of the replicas of `strategy.run`."""

    def __init__(self, strategy: Any, replica: int, merge: Callable[..., Any] | None = None) -> None:
        self.strategy, self.number, self._merge = strategy, replica, merge

    @property
    def num_replicas_in_sync(self) -> int:
        return int(self.strategy.num_replicas_in_sync)

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The replica's number as a constant; without a strategy, the number 0."""
        return tf.constant(self.number, tf.int32, name="replica_id_in_sync_group") if _modes.entered else self.number

    @property
    def devices(self) -> Sequence[str]:
        """The replica's device."""
        return [self.strategy.worker_devices[self.number]]

    def merge_call(
        self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call `merge_fn(strategy, ...)` once for all replicas, with their arguments grouped; return this replica's result."""
        if self._merge is not None:
            return self._merge(merge_fn, args, kwargs or {})
        # without a strategy in force there is none between the replicas either
        with entered(Mode(self.strategy)) if _modes.entered else nullcontext():
            return merge_fn(self.strategy, *args, **(kwargs or {}))

    def all_reduce(self, reduce_op: Any, value: Any, options: object = None) -> Any:
        """Sum or mean of the replicas' values, on each replica."""
        flat = tf.nest.flatten(value)

        def reduce(strategy: Any, *values: Any) -> Any:
            pairs = [(item, item.device if isinstance(item, tf.Tensor) else item) for item in values]
            return strategy.batch_reduce_to(reduce_op, pairs)

        if any(isinstance(item, tf.IndexedSlices) for item in flat):
            return tf.nest.pack_sequence_as(value, self.merge_call(reduce, flat))

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def reduce_with_gradient(*values: Any) -> Any:
            return self.merge_call(reduce, values), lambda *gradients: self.all_reduce(reduce_op, gradients)

        return tf.nest.pack_sequence_as(value, reduce_with_gradient(*flat))


@contextmanager
def entered(mode: Mode) -> Iterator[None]:
    """Context with this mode in force."""
    _modes.entered.append(mode)
    try:
        yield
    finally:
        _modes.entered.pop()


@contextmanager
def updating(replica: int | None) -> Iterator[None]:
    """Context in which a distributed variable stands for its component on one replica."""
    saved, _modes.updated_replica = _modes.updated_replica, replica
    try:
        yield
    finally:
        _modes.updated_replica = saved


def current_mode() -> Mode | None:
    """The mode in force; None without a strategy."""
    return _modes.entered[-1] if _modes.entered else None


def updated_replica() -> int | None:
    """The replica whose variables are updated here."""
    return _modes.updated_replica


def current_replica() -> int | None:
    """The replica that runs, or whose variables are updated; None between replicas, 0 without a strategy."""
    mode = current_mode()
    if mode is None:
        return 0
    return mode.replica.number if mode.replica is not None else _modes.updated_replica


def has_strategy() -> bool:
    """Whether a strategy is in force."""
    return bool(_modes.entered)


def in_cross_replica_context() -> bool:
    """Whether code runs between the replicas of a strategy."""
    mode = current_mode()
    return mode is not None and mode.replica is None


def skip_summary() -> bool:
    """Whether a summary is left out here: of a strategy's replicas, the first writes it."""
    mode = current_mode()
    if mode is None or mode.replica is None:
        return False
    # TensorFlow makes a node of the number
    mode.replica.replica_id_in_sync_group  # noqa: B018
    return mode.replica.number > 0


def colocate_variables_with(variable: Any) -> AbstractContextManager[None]:
    """Context whose variables are made beside a variable; under a strategy, on each of the variable's devices."""
    mode = current_mode()
    found: AbstractContextManager[None] = (
        tf.colocate_with(variable) if mode is None else mode.strategy.colocate_vars_with(variable)
    )
    return found
