"""TensorFlow's errors for file errors of the operating system."""

from __future__ import annotations

import errno
import os

from placesim.core.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)
from placesim.core.files.reader import NoFileError

STATUS: dict[int | None, type[OpError]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: AlreadyExistsError,
    errno.ENOTEMPTY: FailedPreconditionError,
    errno.ENOTDIR: FailedPreconditionError,
    errno.EISDIR: FailedPreconditionError,
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.ENOSPC: ResourceExhaustedError,
    errno.EMFILE: ResourceExhaustedError,
    errno.EINVAL: InvalidArgumentError,
    errno.ENAMETOOLONG: InvalidArgumentError,
}
"""TensorFlow's error classes, by error number of the operating system."""


def file_error(name: str, error: OSError) -> OpError:
    """Return TensorFlow's error for an error of the system: `missing.txt; No such file or directory`."""
    if isinstance(error, NoFileError):
        return PermissionDeniedError(f"{name}; Permission denied: it is {error.strerror}")
    return STATUS.get(error.errno, UnknownError)(f"{name}; {os.strerror(error.errno or 0)}")


def is_missing_file(error: Exception) -> bool:
    """Whether an error means that a file, possibly of a checkpoint, is missing."""
    texts = (f"; {os.strerror(errno.ENOENT)}", "Failed to find any matching files")
    return isinstance(error, NotFoundError) and any(text in error.message for text in texts)
