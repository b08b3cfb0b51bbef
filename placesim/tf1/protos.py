"""The protocol buffer messages that scripts make and read: `tf.ConfigProto`, `tf.RunMetadata` and others, by their names."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from placesim.formats.tensorflow.messages import MESSAGES, message_class
    from placesim.formats.tensorflow.session_messages import SESSION_MESSAGES

    if name not in MESSAGES and name not in SESSION_MESSAGES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = message_class(name)
    return found
