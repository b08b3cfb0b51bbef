"""`Tensor.eval` and `Operation.run`: one element of a graph, in the default session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placesim.tf1.session.stacks import get_default_session

if TYPE_CHECKING:
    from placesim.tf1.graph import Graph


def eval_using_default_session(tensors: Any, feed_dict: Any, graph: Graph, session: Any = None) -> Any:
    """The value of a tensor.  Raises ValueError where no session can be had, or it has another graph."""
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(
                "Cannot evaluate tensor using `eval()`: No default session is registered. Use `with sess.as_default()` or "
                "pass an explicit session to `eval(session=sess)`"
            )
        if session.graph is not graph:
            raise ValueError(
                "Cannot use the default session to evaluate tensor: the tensor's graph is different from the session's graph. "
                "Pass an explicit session to `eval(session=sess)`."
            )
    elif session.graph is not graph:
        raise ValueError(
            "Cannot use the given session to evaluate tensor: the tensor's graph is different from the session's graph."
        )
    return session.run(tensors, feed_dict)


def run_using_default_session(operation: Any, feed_dict: Any, graph: Graph, session: Any = None) -> None:
    """Run an operation.  Raises ValueError where no session can be had, or it has another graph."""
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(
                "Cannot execute operation using `run()`: No default session is registered. Use `with sess.as_default():` or "
                "pass an explicit session to `run(session=sess)`"
            )
        if session.graph is not graph:
            raise ValueError(
                "Cannot use the default session to execute operation: the operation's graph is different from the session's "
                "graph. Pass an explicit session to run(session=sess)."
            )
    elif session.graph is not graph:
        raise ValueError(
            "Cannot use the given session to execute operation: the operation's graph is different from the session's graph."
        )
    session.run(operation, feed_dict)
