"""Checkpoints: the files of TensorFlow's tensor bundles <-> tensors by name.

- `checkpoint` reads one, `writing` writes one, `merging` makes one of several; `state` reads the file that names the newest
- `entries` and `messages` are what the index holds, in a `table` of blocks (`snappy` expands those that are compressed)
- `slices` are parts of a tensor, `string_tensors` those whose elements have no size, `crc32c` the checksum of all of it
"""
