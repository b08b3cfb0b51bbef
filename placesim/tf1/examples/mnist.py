"""The MNIST digits as TensorFlow's tutorials read them: from four files, or synthetic on request."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike

_FILES = (
    *("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    *("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)
VARIABLE = "PLACESIM_MNIST"
"""Environment variable that requests synthetic digits (`synthetic`)."""
_COUNTS = (60_000, 10_000)
"""Number of images for training and for testing."""
_SIZE, _CLASSES = 28, 10
_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049
_HELP = (
    f"nothing is downloaded: put {', '.join(_FILES)} there, or set the environment variable {VARIABLE}=synthetic for made-up "
    "digits of the same sizes"
)


class Datasets(NamedTuple):
    """Result of `read_data_sets`."""

    train: DataSet
    validation: DataSet
    test: DataSet


class DataSet:
    """Images and labels in batches: in order in the first epoch, and shuffled in each later epoch."""

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: DTypeLike = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self._random = np.random.RandomState(seed)
        self._is_fake, self._one_hot = fake_data, one_hot
        self._num_examples = 10_000 if fake_data else len(images)
        if not fake_data:
            if len(images) != len(labels):
                raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
            if reshape:
                images = images.reshape(len(images), -1)
            if dtype == tf.float32:
                images = images.astype(np.float32) * np.float32(1 / 255)
        self._images, self._labels = images, labels
        self._epochs_completed = 0
        self._next = 0

    images = property(lambda self: self._images)
    labels = property(lambda self: self._labels)
    num_examples = property(lambda self: self._num_examples)
    epochs_completed = property(lambda self: self._epochs_completed)

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next images and labels.  A batch at the end of an epoch is completed from the next epoch."""
        if fake_data or self._is_fake:
            label: Any = [1] + [0] * (_CLASSES - 1) if self._one_hot else 0
            return [[1] * _SIZE * _SIZE] * batch_size, [label] * batch_size
        if self._epochs_completed == 0 and self._next == 0 and shuffle:
            self._shuffle()
        end = self._next + batch_size
        if end <= self._num_examples:
            found = self._images[self._next : end], self._labels[self._next : end]
            self._next = end
            return found
        self._epochs_completed += 1
        rest = self._images[self._next :], self._labels[self._next :]
        if shuffle:
            self._shuffle()
        self._next = end - self._num_examples
        return tuple(
            np.concatenate((old, new[: self._next])) for old, new in zip(rest, (self._images, self._labels), strict=True)
        )  # type: ignore[return-value]

    def _shuffle(self) -> None:
        order = self._random.permutation(self._num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: DTypeLike = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """Read the digits of a directory.  Raises FileNotFoundError for a missing file, ValueError for wrong content."""
    settings: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed, "one_hot": one_hot}
    if fake_data:
        made = [DataSet([], [], fake_data=True, **settings) for _ in range(3)]  # type: ignore[arg-type]
        return Datasets(*made)
    images, labels, test_images, test_labels = _synthetic() if _is_synthetic() else _read(train_dir)
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    if one_hot:
        labels, test_labels = dense_to_one_hot(labels, _CLASSES), dense_to_one_hot(test_labels, _CLASSES)
    return Datasets(
        train=DataSet(images[validation_size:], labels[validation_size:], **settings),
        validation=DataSet(images[:validation_size], labels[:validation_size], **settings),
        test=DataSet(test_images, test_labels, **settings),
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """The digits of a directory."""
    return read_data_sets(train_dir)


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """One-hot rows of class numbers."""
    rows: np.ndarray = np.eye(num_classes)[labels_dense]
    return rows


def extract_images(f: object) -> np.ndarray:
    """The images of an open, compressed file, as uint8 [count, 28, 28, 1].  Raises ValueError."""
    return _idx(f, _IMAGES_MAGIC)[..., None]


def extract_labels(f: object, one_hot: bool = False, num_classes: int = _CLASSES) -> np.ndarray:
    """The class numbers of an open, compressed file, or their one-hot rows.  Raises ValueError."""
    labels = _idx(f, _LABELS_MAGIC)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def _idx(f: Any, magic: int) -> np.ndarray:
    """Bytes of an IDX file in the shape of its header."""
    with gzip.GzipFile(fileobj=f) as stream:
        data = stream.read()
    found = int.from_bytes(data[:4], "big")
    if found != magic:
        raise ValueError(f"Invalid magic number {found} in MNIST file: {getattr(f, 'name', f)}")
    rank = magic & 0xFF
    shape = [int.from_bytes(data[4 * i + 4 : 4 * i + 8], "big") for i in range(rank)]
    return np.frombuffer(data, np.uint8, offset=4 * rank + 4).reshape(shape)


def _read(folder: str) -> list[np.ndarray]:
    readers: list[Callable[[Any], np.ndarray]] = [extract_images, extract_labels] * 2
    found = []
    for name, reader in zip(_FILES, readers, strict=True):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise FileNotFoundError(f"The MNIST digits are not in {folder!r}: there is no {path}; {_HELP}")
        with open(path, "rb") as file:
            found.append(reader(file))
    return found


def _is_synthetic() -> bool:
    """Whether to make synthetic digits.  Raises ValueError for an invalid variable."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "synthetic"):
        raise ValueError(f"{VARIABLE}={asked}: it can only be synthetic")
    return bool(asked)


def _synthetic() -> list[np.ndarray]:
    """Synthetic digits: one of ten dot patterns per class, always the same."""
    random = np.random.RandomState(0)
    patterns = np.where(random.rand(_CLASSES, _SIZE, _SIZE, 1) < 0.2, 255, 0).astype(np.uint8)
    found = []
    for count in _COUNTS:
        labels = random.randint(0, _CLASSES, count).astype(np.uint8)
        found += [patterns[labels], labels]
    return found
