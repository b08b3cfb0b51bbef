"""Loads `tf.contrib` of TensorFlow 1.15 on the ops of a later release, to record what its calls make there.

Only Python sources are taken, from the folder `tensorflow_core` of TensorFlow 1.15's wheel: `contrib.distributions`,
`contrib.feature_column`, and of `contrib.factorization` the clustering ops.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_MOVED = (
    ("array_ops", "stack", "stack"),
    ("array_ops", "unstack", "unstack"),
    ("control_flow_ops", "cond", "cond"),
    ("control_flow_ops", "while_loop", "while_loop"),
    ("variable_scope", "variable", "Variable"),
)
"""Functions that later releases define in other modules: the module and name of 1.15, and the public name."""


def load_contrib(tf: Any, core: Path) -> None:
    """Set `tf.contrib`, from the folder `core`."""
    for module, name, public in _MOVED:
        setattr(importlib.import_module(f"tensorflow.python.ops.{module}"), name, getattr(tf, public))
    tf.contrib = _package("tensorflow.contrib", core / "contrib")
    importlib.import_module("tensorflow.python.ops.distributions").__path__.append(str(core / "python/ops/distributions"))
    tf.contrib.distributions = _package("tensorflow.contrib.distributions", core / "contrib/distributions")
    for line in (core / "contrib/distributions/__init__.py").read_text().splitlines():
        module = line.split()[1] if line.startswith("  from ") else ""
        if module and not module.endswith((".estimator", ".wishart")):
            exec(line.strip(), vars(tf.contrib.distributions))
    tf.contrib.factorization = _package("tensorflow.contrib.factorization", core / "contrib/factorization")
    tf.contrib.feature_column = importlib.import_module("tensorflow.contrib.feature_column")
    exec("from tensorflow.contrib.factorization.python.ops.clustering_ops import *", vars(tf.contrib.factorization))


def _package(name: str, path: Path) -> ModuleType:
    """An empty package whose modules lie in `path`."""
    sys.modules[name] = package = ModuleType(name)
    package.__path__ = [str(path)]
    return package
