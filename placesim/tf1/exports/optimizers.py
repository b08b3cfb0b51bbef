"""Optimizers."""

from __future__ import annotations

_KINDS = "GradientDescent Momentum RMSProp Adagrad Adadelta Ftrl ProximalGradientDescent ProximalAdagrad AdagradDA Adam"

ROWS = {
    "optimizers.optimizer": "train.Optimizer",
    "optimizers.kinds": " ".join(f"train.{kind}Optimizer" for kind in _KINDS.split()),
}
