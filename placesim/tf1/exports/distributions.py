"""Distributions, which `tf.contrib.distributions` has under the same names."""


def _both(names: str) -> str:
    return " ".join(f"{prefix}distributions.{name}" for prefix in ("", "contrib.") for name in names.split())


ROWS = {
    "distributions.distribution": _both("Distribution ReparameterizationType FULLY_REPARAMETERIZED NOT_REPARAMETERIZED"),
    "distributions.divergences": _both("kl_divergence RegisterKL"),
    "distributions.location_scale": _both("Normal Uniform Laplace StudentT"),
    "distributions.positive": _both("Gamma Exponential Beta Dirichlet"),
    "distributions.discrete": _both("Bernoulli Categorical Multinomial"),
    "distributions.multivariate": "contrib.distributions.MultivariateNormalDiag",
}
