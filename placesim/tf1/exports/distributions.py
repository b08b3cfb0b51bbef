"""Distributions, which `tf.contrib.distributions` has under the same names."""


def _both(names: str) -> str:
    return " ".join(f"{prefix}distributions.{name}" for prefix in ("", "contrib.") for name in names.split())


def _contrib(names: str) -> str:
    return " ".join(f"contrib.distributions.{name}" for name in names.split())


ROWS = {
    "distributions.distribution": _both("Distribution ReparameterizationType FULLY_REPARAMETERIZED NOT_REPARAMETERIZED"),
    "distributions.divergences": _both("kl_divergence RegisterKL"),
    "distributions.location_scale": " ".join(
        [_both("Normal Uniform Laplace StudentT"), _contrib("NormalWithSoftplusScale Logistic Cauchy")]
    ),
    "distributions.positive": " ".join([_both("Gamma Exponential Beta Dirichlet"), _contrib("Chi2 InverseGamma")]),
    "distributions.affine": _contrib("bijectors.Affine"),
    "distributions.triangles": _contrib("fill_triangular fill_triangular_inverse"),
    "distributions.discrete": " ".join(
        [_both("Bernoulli Categorical Multinomial"), _contrib("Poisson Deterministic Binomial NegativeBinomial")]
    ),
    "distributions.multivariate": _contrib(
        "MultivariateNormalDiag MultivariateNormalDiagWithSoftplusScale MultivariateNormalTriL MultivariateNormalFullCovariance"
    ),
    "distributions.relaxed": _contrib(
        "OneHotCategorical ExpRelaxedOneHotCategorical RelaxedOneHotCategorical RelaxedBernoulli"
    ),
    "distributions.statistics": _contrib("percentile softplus_inverse"),
    "distributions.mixtures": _contrib("Mixture MixtureSameFamily Independent"),
    "distributions.transformed": _contrib("TransformedDistribution"),
    "distributions.bijectors": _contrib(
        "bijectors.Bijector bijectors.Identity bijectors.Exp bijectors.Sigmoid bijectors.AffineLinearOperator "
        "bijectors.Softplus bijectors.AffineScalar bijectors.Permute bijectors.Invert bijectors.Chain"
    ),
}
