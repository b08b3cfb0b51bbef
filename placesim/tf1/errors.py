"""`tf.errors`: what running a graph raises, and what Python must not do with a tensor."""

from __future__ import annotations


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor was used where Python needs a value."""
