"""What is not there says so by its name; what TensorFlow hasn't either is no attribute."""

from __future__ import annotations

import pytest

import placesim.tf1 as tf
from placesim.tf1.exports import table
from placesim.tf1.importing.missing_names import known_names


def test_what_is_not_there_says_so_when_it_is_called() -> None:
    name = min(known_names() - table().keys())
    found = tf
    for part in name.split("."):
        found = getattr(found, part)
    with pytest.raises(NotImplementedError, match=rf"tf\.{name} is not there"):
        found()  # type: ignore[operator]


def test_what_tensorflow_has_not_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"module 'tensorflow\.compat\.v1' has no attribute 'nothing_of_the_kind'"):
        tf.nothing_of_the_kind  # noqa: B018
    assert not hasattr(tf.nn, "nothing_of_the_kind")


def test_a_missing_method_of_a_distribution_says_so_under_any_name_scope() -> None:
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match=r"distributions\.Normal\.log_cdf is not there"):
        tf.distributions.Normal(0.0, 1.0).log_cdf(1.0, name="other")


def test_an_attribute_of_a_missing_class_says_so_and_is_absent_for_hasattr() -> None:
    missing = tf.profiler.ProfileOptionBuilder
    assert not hasattr(missing, "float_operation")
    with pytest.raises(NotImplementedError, match=r"tf.profiler.ProfileOptionBuilder.float_operation is not there"):
        missing.float_operation()
