"""`Tensor.eval` and `Operation.run`: one element of a graph, in the default session."""

from __future__ import annotations

from typing import Any, NamedTuple

from placesim.tf1.session.stacks import FeedDict, RunningSession, get_default_session


class _Wording(NamedTuple):
    """Differences between the messages of the two methods."""

    action: str
    method: str
    block: str
    call: str


_EVAL = _Wording("evaluate tensor", "eval", "with sess.as_default()", "`eval(session=sess)`")
_RUN = _Wording("execute operation", "run", "with sess.as_default():", "run(session=sess)")


def eval_tensor(tensor: Any, feed_dict: FeedDict | None, session: RunningSession | None) -> Any:
    """Value of a tensor in a session, by default the default session.  Raises ValueError if there is none for its graph."""
    return _in_session(_EVAL, tensor, feed_dict, session)


def run_operation(operation: Any, feed_dict: FeedDict | None, session: RunningSession | None) -> None:
    """Run an operation in a session, by default the default session.  Raises ValueError if there is none for its graph."""
    _in_session(_RUN, operation, feed_dict, session)


def _in_session(words: _Wording, element: Any, feed_dict: FeedDict | None, given: RunningSession | None) -> Any:
    session = get_default_session() if given is None else given
    if session is None:
        raise ValueError(
            f"Cannot {words.action} using `{words.method}()`: No default session is registered. Use `{words.block}` or "
            f"pass an explicit session to `{words.method}(session=sess)`"
        )
    if session.graph is element.graph:
        return session.run(element, feed_dict)
    whose = words.action.split()[-1]
    told = f"session to {words.action}: the {whose}'s graph is different from the session's graph."
    if given is None:
        raise ValueError(f"Cannot use the default {told} Pass an explicit session to {words.call}.")
    raise ValueError(f"Cannot use the given {told}")
