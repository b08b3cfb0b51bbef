"""Samplers of candidate classes with their expected counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.ops.signatures import snake_case
from placesim.tf1.random.seeds import get_seed


def _drawn(
    op: str, classes: object, num_true: int, num_sampled: int, unique: bool, seed: int | None, name: str | None, **attrs: object
) -> Any:
    first, second = get_seed(seed)
    return gen(op)(classes, num_true, num_sampled, unique, seed=first or 0, seed2=second or 0, name=name, **attrs)


def _sampler(op: str) -> Callable[..., Any]:
    def sample(
        true_classes: TensorLike,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        name: str | None = None,
    ) -> Any:
        return _drawn(op, true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max)

    sample.__name__ = sample.__qualname__ = snake_case(op)
    return sample


uniform_candidate_sampler = _sampler("UniformCandidateSampler")
log_uniform_candidate_sampler = _sampler("LogUniformCandidateSampler")
learned_unigram_candidate_sampler = _sampler("LearnedUnigramCandidateSampler")


def fixed_unigram_candidate_sampler(
    true_classes: object,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Classes sampled by frequencies from a list or a file."""
    return _drawn(
        "FixedUnigramCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
    )


def all_candidate_sampler(
    true_classes: TensorLike, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Any:
    """All classes."""
    return _drawn("AllCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name)


def compute_accidental_hits(
    true_classes: object, sampled_candidates: object, num_true: int, seed: int | None = None, name: str | None = None
) -> Any:
    """Sampled classes that are true classes: rows, indices of the samples, and weights that remove them from a softmax."""
    first, second = get_seed(seed)
    return gen("ComputeAccidentalHits")(
        true_classes, sampled_candidates, num_true, seed=first or 0, seed2=second or 0, name=name
    )
