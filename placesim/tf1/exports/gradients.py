"""Gradients."""

ROWS = {
    "gradients.backward": "gradients UnconnectedGradients",
    "gradients.aggregation": "AggregationMethod",
    "gradients.second_order": "hessians",
    "gradients.custom": (
        "custom_gradient recompute_grad grad_pass_through RegisterGradient NotDifferentiable NoGradient=NotDifferentiable "
        "no_gradient=NotDifferentiable"
    ),
}
