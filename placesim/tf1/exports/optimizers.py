"""Optimizers."""

_KINDS = "GradientDescent Momentum RMSProp Adagrad Adadelta Adam"
_PROXIMAL = "Ftrl ProximalGradientDescent ProximalAdagrad AdagradDA"
KINDS = (*_KINDS.split(), *_PROXIMAL.split())
"""`tf.train.KINDOptimizer`."""

ROWS = {
    "optimizers.averages": "train.ExponentialMovingAverage",
    "optimizers.steps": (
        "train.get_global_step train.create_global_step train.get_or_create_global_step train.assert_global_step "
        "train.global_step"
    ),
    "optimizers.rates": (
        "train.exponential_decay train.natural_exp_decay train.inverse_time_decay train.polynomial_decay "
        "train.piecewise_constant train.piecewise_constant_decay train.cosine_decay train.cosine_decay_restarts "
        "train.linear_cosine_decay train.noisy_linear_cosine_decay"
    ),
    "optimizers.optimizer": "train.Optimizer",
    "optimizers.kinds": " ".join(f"train.{kind}Optimizer" for kind in _KINDS.split()),
    "optimizers.proximal": " ".join(f"train.{kind}Optimizer" for kind in _PROXIMAL.split()),
}
