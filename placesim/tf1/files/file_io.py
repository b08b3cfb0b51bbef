"""`tensorflow.python.lib.io.file_io`: the functions of `tf.gfile` under other names."""

from __future__ import annotations

import os
from typing import Any

from placesim.tf1.files.gfile import (
    Copy,
    DeleteRecursively,
    Exists,
    GFile,
    Glob,
    IsDirectory,
    ListDirectory,
    MakeDirs,
    MkDir,
    Remove,
    Rename,
    Stat,
    Walk,
)
from placesim.tf1.graphs.tensor_likes import TensorLike

FileIO = GFile
file_exists = Exists
delete_file = Remove
get_matching_files = Glob
create_dir = MkDir
recursive_create_dir = MakeDirs
copy = Copy
rename = Rename
delete_recursively = DeleteRecursively
is_directory = IsDirectory
list_directory = ListDirectory
walk = Walk
stat = Stat


def read_file_to_string(filename: str, binary_mode: bool = False) -> Any:
    """Content of a file."""
    with GFile(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: str, file_content: object) -> None:
    """Makes a file of a text."""
    with GFile(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: str, contents: TensorLike, overwrite: bool = True) -> None:
    """Makes a file of a text, whole or not at all."""
    part = f"{filename}.{os.getpid()}.part"
    write_string_to_file(part, contents)
    Rename(part, filename, overwrite)
