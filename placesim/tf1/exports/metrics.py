"""Metrics."""

from __future__ import annotations

_NAMES = (
    *("accuracy", "mean", "mean_tensor", "mean_absolute_error", "mean_squared_error", "root_mean_squared_error"),
    *("percentage_below", "true_positives", "true_negatives", "false_positives", "false_negatives", "precision", "recall"),
)

ROWS = {"metrics": " ".join(f"metrics.{name}" for name in _NAMES)}
