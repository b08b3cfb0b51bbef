"""TensorFlow's thread pools: one for running ops concurrently, and one for the work inside an op (section 11).

The first session of a process creates the pool that runs ops. Later sessions share this pool, unless they request a pool of
their own or a named one. All sessions share the threads inside an op (`intra_op`); the first session decides their number.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from placesim.core.errors import InvalidArgumentError
from placesim.core.operating_system import available_processors
from placesim.graph.session_steps import Config
from placesim.ops.process.intra_op_threads import IntraOpPool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class ThreadPools:
    """The pools of one process."""

    def __init__(self) -> None:
        self._shared: ThreadPoolExecutor | None = None
        self._named: dict[str, tuple[int, ThreadPoolExecutor]] = {}
        self._intra_op: IntraOpPool | None = None

    def inter_op(self, config: Config, index: int = 0) -> ThreadPoolExecutor | None:
        """Return the pool for a session's ops, or None if they run in the caller's thread.

        `index` chooses an entry of `session_inter_op_thread_pool`. Raises InvalidArgumentError if there is no such entry, or if
        a named pool exists with another size.
        """
        listed = config.session_inter_op_thread_pool
        if listed:
            if not 0 <= index < len(listed):
                raise InvalidArgumentError(f"Invalid inter_op_thread_pool: {index}")
            wanted = listed[index]
            return self._named_pool(wanted.global_name, wanted.num_threads or default_inter_op(config))
        # TensorFlow 2 accepts -1 as well (11.6)
        if index not in (0, -1):
            raise InvalidArgumentError(f"Invalid inter_op_thread_pool: {index}")
        threads = default_inter_op(config)
        # a negative number runs all ops in the thread that calls `run` (11.4)
        if threads < 0:
            return None
        if config.use_per_session_threads:
            return _make_pool(threads, "session")
        if self._shared is None:
            self._shared = _make_pool(threads, "inter-op")
        return self._shared

    def _named_pool(self, name: str, threads: int) -> ThreadPoolExecutor:
        # a pool without a name belongs to this session alone
        if not name:
            return _make_pool(threads, "session")
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = (threads, _make_pool(threads, name))
        if found[0] != threads:
            raise InvalidArgumentError(
                f"Pool {name} configured previously with num_threads={found[0]}; cannot re-configure with num_threads={threads}"
            )
        return found[1]

    def intra_op(self, config: Config) -> IntraOpPool:
        """Return the pool for the work inside one op; the first session determines its size (11.2)."""
        if self._intra_op is None:
            wanted = config.intra_op_parallelism_threads or _from_environment("TF_NUM_INTRAOP_THREADS")
            self._intra_op = IntraOpPool(wanted if wanted > 0 else available_processors())
        return self._intra_op

    def close(self) -> None:
        """End all threads when their current work is done; no pool can be used afterwards."""
        for pool in (self._shared, *(pool for _, pool in self._named.values())):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        if self._intra_op is not None:
            self._intra_op.close()


def _make_pool(threads: int, name: str) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # few sessions need a pool

    return ThreadPoolExecutor(threads, f"placesim-{name}")


PROCESS_POOLS = ThreadPools()


def runs_ops_in_parallel(config: Config) -> bool:
    """Whether a session's ops run concurrently in a pool.

    With the automatic setting (0), ops run one after another, and the threads inside an op use all processors.
    """
    if config.session_inter_op_thread_pool:
        return True
    threads = config.inter_op_parallelism_threads or _from_environment("TF_NUM_INTEROP_THREADS")
    return threads > 1 or (config.use_per_session_threads and threads == 0)


def default_inter_op(config: Config) -> int:
    """Return the number of threads that run ops: from the config, else the environment, else one per processor (11.4)."""
    return config.inter_op_parallelism_threads or _from_environment("TF_NUM_INTEROP_THREADS") or available_processors()


def _from_environment(name: str) -> int:
    """Return a number of threads from the environment; 0, as in TensorFlow, if the variable is unset or invalid."""
    try:
        return int(os.environ.get(name, "0"))
    except ValueError:
        return 0
