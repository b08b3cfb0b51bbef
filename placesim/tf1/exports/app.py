"""What runs a script and what it writes: logging."""

from __future__ import annotations

_LOGGING = (
    "DEBUG INFO WARN ERROR FATAL debug info warn warning error fatal log vlog log_if log_every_n log_first_n get_verbosity "
    "set_verbosity flush get_logger TaskLevelStatusMessage"
)

ROWS = {
    "app_logging": " ".join(f"logging.{name}" for name in _LOGGING.split()) + " get_logger",
    "python_functions": "py_func numpy_function",
}
