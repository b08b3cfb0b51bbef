"""`tensorflow.python.lib.io.file_io`: the functions of `tf.gfile` under other names."""

from __future__ import annotations

import os
from typing import Any

from placesim.tf1.files import gfile
from placesim.tf1.graphs.tensor_likes import TensorLike

FileIO, file_exists, is_directory, stat = gfile.GFile, gfile.Exists, gfile.IsDirectory, gfile.Stat
get_matching_files, list_directory, walk = gfile.Glob, gfile.ListDirectory, gfile.Walk
create_dir, recursive_create_dir, copy, rename = gfile.MkDir, gfile.MakeDirs, gfile.Copy, gfile.Rename
delete_file, delete_recursively = gfile.Remove, gfile.DeleteRecursively


def read_file_to_string(filename: str, binary_mode: bool = False) -> Any:
    """Content of a file."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: str, file_content: object) -> None:
    """Write a string to a file."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: str, contents: TensorLike, overwrite: bool = True) -> None:
    """Write a string to a file, completely or not at all."""
    part = f"{filename}.{os.getpid()}.part"
    write_string_to_file(part, contents)
    rename(part, filename, overwrite)
