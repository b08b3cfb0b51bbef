"""`tf.train.Scaffold`: the ops that a training session needs, with defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.training import initializing
from placesim.tf1.types.read_only import read_only


class Scaffold:
    """Ops that initialize, check readiness, summarize and save.

    `finalize` takes a missing op from its collection, or makes it and adds it there.  Raises TypeError if
    `copy_from_scaffold` is not a Scaffold.
    """

    def __init__(
        self,
        init_op: object = None,
        init_feed_dict: object = None,
        init_fn: Callable[..., Any] | None = None,
        ready_op: object = None,
        ready_for_local_init_op: object = None,
        local_init_op: object = None,
        summary_op: object = None,
        saver: object = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: object = None,
    ) -> None:
        given: dict[str, Any] = {
            "init_op": init_op,
            "init_feed_dict": init_feed_dict,
            "ready_op": ready_op,
            "ready_for_local_init_op": ready_for_local_init_op,
            "local_init_op": local_init_op,
            "local_init_feed_dict": local_init_feed_dict,
            "summary_op": summary_op,
            "saver": saver,
        }
        copied: Any = copy_from_scaffold
        if copied is not None:
            if not isinstance(copied, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            given = {name: getattr(copied, "_" + name) if value is None else value for name, value in given.items()}
            init_fn = init_fn or copied._user_init_fn
        for name, value in given.items():
            setattr(self, "_" + name, value)
        self._user_init_fn: Callable[..., Any] | None = init_fn

    def finalize(self) -> Scaffold:
        """Make the missing parts and finalize the graph.  Raises RuntimeError if a collection has several candidates."""
        for name, key, make in _DEFAULTS:
            if getattr(self, "_" + name) is None:
                setattr(self, "_" + name, self.get_or_default(name, key, make))
        if self._saver is None:
            self._saver = saver_of_graph()
        self._saver.build()
        # hooks of a running session could otherwise add nodes unnoticed
        tf.get_default_graph().finalize()
        tf.logging.info("Graph was finalized.")
        return self

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The only item of a collection; if there is none, a new one is added.  Raises RuntimeError for several items."""
        found = tf.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                'More than one item in the collection "%s". Please indicate which one to use by passing it to the '
                "tf.Scaffold constructor as:  tf.Scaffold(%s=item to use)",
                collection_key,
                arg_name,
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            tf.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Op that initializes local variables, tables and local resources."""
        return tf.group(
            tf.local_variables_initializer(),
            initializing.tables_initializer(),
            initializing.initialize_resources(initializing.local_resources()),
        )

    @property
    def init_fn(self) -> Callable[..., Any] | None:
        """The given `init_fn(scaffold, session)` as a function of the session, None if there is none."""
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

    _saver: Any
    init_op = read_only("_init_op")
    ready_op = read_only("_ready_op")
    ready_for_local_init_op = read_only("_ready_for_local_init_op")
    local_init_op = read_only("_local_init_op")
    local_init_feed_dict = read_only("_local_init_feed_dict")
    summary_op = read_only("_summary_op")
    saver = read_only("_saver")
    init_feed_dict = read_only("_init_feed_dict")


def _init_op() -> Any:
    shared = initializing.shared_resources()
    return tf.group(tf.global_variables_initializer(), initializing.initialize_resources(shared))


def _ready_op() -> Any:
    return tf.concat([tf.report_uninitialized_variables(), initializing.report_uninitialized_resources()], 0)


def _ready_for_local_init_op() -> Any:
    shared = initializing.shared_resources()
    variables = tf.report_uninitialized_variables(tf.global_variables())
    return tf.concat([variables, initializing.report_uninitialized_resources(shared)], 0)


_DEFAULTS: tuple[tuple[str, str, Callable[[], Any]], ...] = (
    ("init_op", GraphKeys.INIT_OP, _init_op),
    ("ready_op", GraphKeys.READY_OP, _ready_op),
    ("ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP, _ready_for_local_init_op),
    ("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op),
    ("summary_op", GraphKeys.SUMMARY_OP, lambda: tf.summary.merge_all()),
)
"""Defaults made by `finalize`, in its order: name, collection, and constructor."""


def saver_of_graph() -> Any:
    """Saver from its collection, or a new sharded one.  Raises RuntimeError for several."""
    found = tf.get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError(
            "More than one item in collection savers. Please indicate which one to use by passing it to the constructor."
        )
    if found:
        return found[0]
    # one file for each task, so that no task gathers the variables of all
    saver = tf.train.Saver(sharded=True, allow_empty=True)
    tf.add_to_collection(GraphKeys.SAVERS, saver)
    return saver
