"""`tf.test` and `tf.resource_loader`: test cases with sessions, and files in the script's folder."""

# ruff: noqa: PT009, PT027 -- this module defines the assertions

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike


@cache
def get_temp_dir() -> str:
    """A directory for files of this process's tests."""
    return os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(prefix="placesim-test-")


def test_src_dir_path(relative_path: str) -> str:
    """A path relative to the working directory."""
    return os.path.join(os.environ.get("TEST_SRCDIR", ""), relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined] # TensorFlow's name; pytest must not collect it


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the script."""
    unittest.main(argv=argv)


def _device(session: Any, use_gpu: bool, force_gpu: bool) -> Any:
    if force_gpu:
        return session.graph.device("/device:GPU:0")
    return nullcontext() if use_gpu else session.graph.device("/device:CPU:0")


class TestCase(unittest.TestCase):
    """A test case that begins with an empty default graph."""

    __test__ = False

    def setUp(self) -> None:
        self._cached: Any = None
        tf.reset_default_graph()
        tf.set_random_seed(87654321)

    def tearDown(self) -> None:
        if self._cached is not None:
            self._cached.close()

    def get_temp_dir(self) -> str:
        """A directory for files of this test."""
        return tempfile.mkdtemp(dir=get_temp_dir())

    @contextmanager
    def session(
        self, graph: object = None, config: object = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Context with a new session.  Without `use_gpu` nodes ask for the CPU; `force_gpu` makes them ask for a GPU."""
        with self._new_session(graph, config, force_gpu) as opened, _device(opened, use_gpu, force_gpu):
            yield opened

    @contextmanager
    def cached_session(
        self, graph: object = None, config: object = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Context with the test's session, the same in all blocks."""
        if self._cached is None:
            self._cached = self._new_session(graph, config, force_gpu)
        with self._cached.graph.as_default(), self._cached.as_default(), _device(self._cached, use_gpu, force_gpu):
            yield self._cached

    @staticmethod
    def _new_session(graph: object, config: object, force_gpu: bool) -> Any:
        """A session that allows another device than a node asks for, unless a GPU is wanted or `config` is given."""
        return tf.Session(graph=graph, config=config or tf.ConfigProto(allow_soft_placement=not force_gpu))

    test_session = cached_session

    def evaluate(self, tensors: object) -> Any:
        """The values of tensors, in the default session or the test's session."""
        found = tf.get_default_session()
        if found is not None:
            return found.run(tensors)
        with self.cached_session() as opened:
            return opened.run(tensors)

    def _value(self, given: object) -> Any:
        is_tensor = isinstance(given, (tf.Tensor, tf.Variable))
        return np.asarray(self.evaluate(given) if is_tensor else given)

    def assertAllEqual(self, a: TensorLike, b: TensorLike, msg: str | None = None) -> None:  # noqa: N802
        """Assert that two arrays, lists or tensors have the same elements."""
        np.testing.assert_array_equal(self._value(a), self._value(b), err_msg=msg or "")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:  # noqa: N802
        """Assert that arrays, lists or tensors, or dictionaries of them, are nearly equal."""
        if isinstance(a, dict):
            self.assertEqual(a.keys(), b.keys(), msg)
            for key, value in a.items():
                self.assertAllClose(value, b[key], rtol, atol, f"{msg or ''} {key}")
            return
        np.testing.assert_allclose(self._value(a), self._value(b), rtol=rtol, atol=atol, err_msg=msg or "")

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Assert that two numbers differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1} != {f2} +/- {err} {msg or ''}")

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:  # noqa: N802
        """Assert that an array and a tensor have the same shape."""
        self.assertEqual(list(np_array.shape), tf_tensor.get_shape().as_list(), msg)

    @contextmanager
    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Iterator[None]:  # noqa: N802
        """Context that must end with a TensorFlow error whose message matches."""
        with self.assertRaises(tf.errors.OpError) as raised:
            yield
        self.assertRegex(str(raised.exception), expected_err_re_or_predicate)


# --- tf.resource_loader ---


def get_data_files_path() -> str:
    """The script's directory."""
    return os.path.dirname(os.path.abspath(getattr(sys.modules["__main__"], "__file__", "")))


def get_path_to_datafile(path: str) -> str:
    """Path of a file in the script's directory."""
    return os.path.join(get_data_files_path(), path)


def get_root_dir_with_all_resources() -> str:
    """The script's directory."""
    return get_data_files_path()


def load_resource(path: str) -> bytes:
    """Content of a file in the script's directory."""
    with open(get_path_to_datafile(path), "rb") as file:
        return file.read()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path unchanged."""
    return path
