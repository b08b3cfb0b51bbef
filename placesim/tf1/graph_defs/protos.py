"""Protocol buffer messages of scripts by name (`tf.ConfigProto`), and TensorFlow's modules of generated messages."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def __getattr__(name: str) -> Any:
    from placesim.formats.tensorflow.messages import MESSAGES, SESSION_MESSAGES, message_class

    if name not in MESSAGES and name not in SESSION_MESSAGES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = message_class(name)
    return found


class GeneratedModule(ModuleType):
    """A module such as `tensorflow.core.framework.types_pb2`, or its package.  Each has all messages and enums."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from placesim.formats.tensorflow.messages import enum_value, enum_wrapper

        for find in (__getattr__, enum_wrapper, enum_value):
            try:
                found = find(name)
            except (AttributeError, KeyError):
                continue
            self.__dict__[name] = found
            return found
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
