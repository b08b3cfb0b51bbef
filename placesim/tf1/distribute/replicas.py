"""Replicas of a function: each runs in a thread of its own, one at a time, until it ends or merges with the others."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.distribute.contexts import Mode, ReplicaContext, entered
from placesim.tf1.distribute.values import regroup, select_replica
from placesim.tf1.variables.scopes import get_variable_scope

_NUMBER = re.compile(r"_\d+(?=/)|_\d$")
"""A number that makes a name unique."""


def run_replicas(strategy: Any, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a function once for each replica, and group the results.

    Raises the error of a replica, and RuntimeError if the replicas merge a different number of times.
    """
    variables: dict[str, list[Any]] = {}
    replicas = [
        _Replica(strategy, number, fn, select_replica(number, args), select_replica(number, kwargs), variables)
        for number in range(len(strategy.worker_devices))
    ]
    for replica in replicas:
        replica.start()
    try:
        while True:
            for replica in replicas:
                replica.advance()
            ended = [replica.has_ended for replica in replicas]
            if all(ended):
                return regroup([replica.result for replica in replicas])
            if any(ended):
                raise RuntimeError("Some replicas made a different number of replica_context().merge_call() calls.")
            _merge(strategy, replicas)
    finally:
        for replica in replicas:
            replica.stop()


def _merge(strategy: Any, replicas: Sequence[_Replica]) -> None:
    """Call the function that the replicas wait for, in the scopes of the first of them."""
    first = replicas[0].merge
    args = regroup([replica.merge.args for replica in replicas])
    kwargs = regroup([replica.merge.kwargs for replica in replicas])
    waited = [operation for replica in replicas for operation in replica.merge.control_inputs]
    with tf.name_scope(first.name_scope), tf.control_dependencies(waited), tf.variable_scope(first.variable_scope):
        merged = first.fn(strategy, *args, **kwargs)
    for replica in replicas:
        replica.merged = select_replica(replica.number, merged)


class _Merge:
    """A replica's call of `merge_call`, with the scopes in which it was made."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        graph = tf.get_default_graph()
        self.fn, self.args, self.kwargs = fn, tuple(args), dict(kwargs)
        scope = graph.get_name_scope()
        self.name_scope = scope + "/" if scope else ""
        self.variable_scope = get_variable_scope()
        self.control_inputs = graph.current_control_inputs()


class _StoppedError(BaseException):
    """Raised in a replica to end its function early."""


class _Replica(threading.Thread):
    """Thread of a replica.  While it runs, the graph's open scopes are the replica's own."""

    def __init__(
        self,
        strategy: Any,
        number: int,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        variables: dict[str, list[Any]],
    ) -> None:
        super().__init__(daemon=True)
        self.strategy, self.number = strategy, number
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.result: Any = None
        self.has_ended = False
        self.merge: _Merge
        self.merged: Any = None
        self._error: BaseException | None = None
        self._is_stopped = False
        self._may_run, self._has_paused = threading.Event(), threading.Event()
        self._graph = tf.get_default_graph()
        self._scopes = self._graph.scopes_of_new_thread()
        self._variable_scope = get_variable_scope()
        self._variables, self._taken = variables, dict[str, int]()
        scope = self._graph.get_name_scope()
        scope = scope + "/" if scope else ""
        self._name_scope = f"{scope}replica_{number}/" if number else scope

    # --- in the strategy's thread ---

    def advance(self) -> None:
        """Let the replica run until it ends or merges.  Raises its error."""
        with self._own_scopes():
            self._may_run.set()
            self._has_paused.wait()
            self._has_paused.clear()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread, which leaves its scopes."""
        with self._own_scopes():
            self._is_stopped = True
            self._may_run.set()
            self.join()

    @contextmanager
    def _own_scopes(self) -> Iterator[None]:
        """Context in which the graph's open scopes are the replica's."""
        saved = self._graph.thread_scopes
        self._graph.thread_scopes = self._scopes
        try:
            yield
        finally:
            self._scopes, self._graph.thread_scopes = self._graph.thread_scopes, saved

    # --- in the replica's thread ---

    def run(self) -> None:
        try:
            self._wait()
            with (
                self._graph.as_default(),
                entered(Mode(self.strategy, ReplicaContext(self.strategy, self.number, self._merge_call))),
                tf.device(self.strategy.worker_devices[self.number]),
                tf.name_scope(self._name_scope),
                tf.variable_scope(self._variable_scope, reuse=self.number > 0),
                tf.variable_creator_scope(self._make_variable),
            ):
                self.result = self.fn(*self.args, **self.kwargs)
            self.has_ended = True
        except _StoppedError:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._has_paused.set()

    def _wait(self) -> None:
        self._may_run.wait()
        self._may_run.clear()
        if self._is_stopped:
            raise _StoppedError

    def _merge_call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.merge = _Merge(fn, args, kwargs)
        self._has_paused.set()
        self._wait()
        return self.merged

    def _make_variable(self, next_creator: Callable[..., Any], **arguments: Any) -> Any:
        """A variable of all replicas. The first replica creates it; other replicas find it by its name without numbers."""
        name = _NUMBER.sub("", arguments.get("name") or "Variable")
        if not self.number:
            made = next_creator(**arguments)
            self._variables.setdefault(name, []).append(made)
            return made
        taken = self._taken.get(name, 0)
        found = self._variables.get(name, [])
        if taken >= len(found):
            wrong = f"with mismatching name on device {self.number}"
            raise RuntimeError(f"Tried to create variable {arguments.get('name')} {wrong}")
        self._taken[name] = taken + 1
        return found[taken]
