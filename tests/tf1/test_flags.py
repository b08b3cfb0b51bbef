"""Flags: kinds, validators and what scripts read of `absl`; behaviour as absl documents it."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator

import pytest

from placesim.tf1.app import flags
from tests.processes import run_process


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    yield
    for name in list(flags.FLAGS):
        delattr(flags.FLAGS, name)
    flags.FLAGS.unparse_flags()


def test_kinds_of_flags() -> None:
    flags.DEFINE_enum_class("colour", Colour.RED, Colour, "")
    flags.DEFINE_multi_enum("letters", ["a"], ["a", "b"], "")
    flags.DEFINE(flags.IntegerParser(0, 9), "digit", 3, "")
    size = flags.DEFINE_integer("size", 1, "")
    flags.DEFINE_alias("s", "size")
    assert flags.FLAGS(["x", "--colour=blue", "--letters=b", "--letters=a", "--digit=7", "--s=5", "rest"]) == ["x", "rest"]
    found = flags.FLAGS
    assert (found.colour, found.letters, found.digit, size.value) == (Colour.BLUE, ["b", "a"], 7, 5)
    with pytest.raises(flags.IllegalFlagValueError, match=r"12 is not an integer in the range \[0, 9\]"):
        flags.FLAGS(["x", "--digit=12"])
    with pytest.raises(flags.IllegalFlagValueError, match=r"should be one of <red\|blue>"):
        flags.FLAGS(["x", "--colour=green"])


def test_validators_of_several_flags() -> None:
    flags.DEFINE_integer("low", 1, "")
    flags.DEFINE_integer("high", 5, "")
    flags.multi_flags_validator(["low", "high"], "low is above high")(lambda values: values["low"] <= values["high"])
    flags.validator("low", "odd only")(lambda value: value % 2 == 1)
    flags.FLAGS(["x", "--low=3"])
    with pytest.raises(flags.IllegalFlagValueError, match="flags low=7, high=5: low is above high"):
        flags.FLAGS(["x", "--low=7"])
    with pytest.raises(flags.IllegalFlagValueError, match="flag --low=2: odd only"):
        flags.FLAGS(["x", "--low=2"])


@pytest.mark.parametrize(("words", "holds"), [([], False), (["--a=1"], True), (["--a=1", "--b=2"], False)])
def test_flags_that_exclude_each_other(words: list[str], holds: bool) -> None:
    for name in "ab":
        flags.DEFINE_string(name, None, "")
    flags.mark_flags_as_mutual_exclusive(["a", "b"], required=True)
    if holds:
        flags.FLAGS(["x", *words])
    else:
        with pytest.raises(flags.IllegalFlagValueError, match=r"Exactly one of \(a, b\) must have a value other than None"):
            flags.FLAGS(["x", *words])


def test_a_default_is_set_anew() -> None:
    size = flags.DEFINE_integer("size", 1, "")
    flags.set_default(size, 4)
    flags.FLAGS(["x"])
    assert (size.value, size.default, size.present) == (4, 4, False)


def test_absl_and_tensorflow_have_the_same_flags() -> None:
    program = """
from placesim.tf1.importing import import_hook
import_hook.install()
import sys
sys.argv = ['x', '--rate=0.5']
from absl import app, flags, logging
import tensorflow as tf
rate = flags.DEFINE_float('rate', 0.1, 'a rate')
def main(_):
    print(tf.app.flags.FLAGS.rate, rate.value, flags.FLAGS is tf.flags.FLAGS, logging.info is tf.logging.info)
app.run(main)
"""
    assert run_process((sys.executable, "-c", program)) == (0, "0.5 0.5 True True\n", "")


def test_words_of_a_command_line() -> None:
    given = {"a": True, "b": False, "c": "text", "d": [1, 2], "e": [3, 4], "f": None}
    assert list(flags.flag_dict_to_args(given, multi_flags={"e"})) == [
        *("--a", "--nob", "--c=text", "--d=1,2", "--e=3", "--e=4", "--f"),
    ]


def test_flags_take_absls_keywords_and_the_older_ones() -> None:
    """TensorFlow 2.21 takes both; what is missing is told by absl's names."""
    flags.DEFINE_integer("width", default=3, help="")
    flags.DEFINE_float(flag_name="rate", default_value=0.5, docstring="")
    flags.FLAGS(["script"])
    assert (flags.FLAGS.width, flags.FLAGS.rate) == (3, 0.5)
    with pytest.raises(TypeError, match="'default' and 'help'"):
        flags.DEFINE_integer("depth")
