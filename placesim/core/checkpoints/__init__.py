"""Reader and writer of TensorFlow's checkpoints ("tensor bundles"), which hold tensors by name.

`checkpoint` reads a checkpoint, `writer` writes one, and `merging` joins several. `checkpoint_state` reads the file that names
the newest checkpoint, and `series` keeps the checkpoints of a run. The index is a `table` of blocks, which `snappy`
decompresses. `index_entries` and `index_messages` parse the entries of the index. `tensor_slices` are regions of a tensor,
`string_tensors` hold strings, and `crc32c` is the checksum of all data.
"""
