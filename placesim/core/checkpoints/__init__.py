"""TensorFlow's checkpoints ("tensor bundles"): files to tensors by name, and back.

`checkpoint` reads a checkpoint, `writer` writes one, and `merging` joins several.  `checkpoint_state` reads the file that names
the newest one, and `series` keeps the checkpoints of a run.  The index is a `table` of blocks (decompressed by `snappy`) with
`index_entries` made of `index_messages`.  `tensor_slices` are regions of a tensor, `string_tensors` hold strings, and `crc32c`
is the checksum of all data.
"""
