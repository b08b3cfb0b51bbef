"""`tf.flags` and `tf.app.run`: absl's flags, which are parsed at first access.  TensorFlow's old parameter names work too."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from absl import flags
from absl.flags import FLAGS as FLAGS
from absl.flags import Error, FlagHolder

_HELP = {"help", "h", "helpshort", "helpfull"}
_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}

flags.disclaim_key_flags()  # a flag's module is the script's, not this one


class TensorFlowFlags(flags.FlagValues):
    """Flags that parse the command line at first access."""

    def __getattr__(self, name: str) -> Any:
        if name in self and not self.is_parsed():
            self(sys.argv, known_only=True)
        return super().__getattr__(name)

    def _parse_flags(self, args: Sequence[str] | None = None) -> None:
        self(sys.argv if args is None else [sys.argv[0], *args], known_only=True)


object.__setattr__(FLAGS, "__class__", TensorFlowFlags)  # absl's own object: scripts define flags with absl, too


def __getattr__(name: str) -> Any:
    return getattr(flags, name)


def _with_old_names(define_flag: Callable[..., FlagHolder[Any]]) -> Callable[..., FlagHolder[Any]]:
    """Make a function that also accepts TensorFlow's old parameter names, with a warning."""

    @wraps(define_flag)
    def call(*args: object, **kwargs: object) -> FlagHolder[Any]:
        if _OLD_NAMES.keys() & kwargs.keys():
            logging.warning(
                "Use of the keyword argument names (flag_name, default_value, docstring) is deprecated, "
                "please use (name, default, help) instead."
            )
        return define_flag(*args, **{_OLD_NAMES.get(key, key): value for key, value in kwargs.items()})

    return call


DEFINE_string = _with_old_names(flags.DEFINE_string)
DEFINE_integer = _with_old_names(flags.DEFINE_integer)
DEFINE_float = _with_old_names(flags.DEFINE_float)
DEFINE_boolean = DEFINE_bool = _with_old_names(flags.DEFINE_boolean)


def run(main: Any = None, argv: Sequence[str] | None = None) -> None:
    """`tf.app.run`: parse the command line, pass unknown flags to `main`, and exit with its result."""
    main = main or sys.modules["__main__"].main
    try:
        left = FLAGS(sys.argv if argv is None else argv, known_only=True)
    except Error as error:
        sys.stderr.write(f"FATAL Flags parsing error: {error}\nPass --helpshort or --helpfull to see help on flags.\n")
        raise SystemExit(1) from None
    asked = _HELP & {word.lstrip("-") for word in left if word.startswith("-")}
    if asked:
        print(FLAGS.get_help() if "helpfull" in asked else FLAGS.main_module_help())
        raise SystemExit(1)
    sys.exit(main(left))
