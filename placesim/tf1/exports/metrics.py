"""Metrics."""

_NAMES = (
    *("accuracy", "mean", "mean_tensor", "mean_absolute_error", "mean_squared_error", "root_mean_squared_error"),
    *("percentage_below", "true_positives", "true_negatives", "false_positives", "false_negatives", "precision", "recall"),
)

_CLASSES = "mean_iou mean_per_class_accuracy mean_relative_error mean_cosine_distance"
_COUNTED = "true_positives true_negatives false_positives false_negatives precision recall"
_RANKED = (
    *("precision_at_k", "precision_at_top_k", "recall_at_k", "recall_at_top_k", "average_precision_at_k"),
    *("sparse_average_precision_at_k", "sparse_precision_at_k"),
)

ROWS = {
    "metrics.means": " ".join(f"metrics.{name}" for name in _NAMES),
    "metrics.classes": " ".join(f"metrics.{name}" for name in _CLASSES.split()),
    "metrics.thresholds": "metrics.auc metrics.sensitivity_at_specificity metrics.specificity_at_sensitivity "
    + " ".join(f"metrics.{name}_at_thresholds" for name in _COUNTED.split()),
    "metrics.ranked": " ".join(f"metrics.{name}" for name in _RANKED),
}
