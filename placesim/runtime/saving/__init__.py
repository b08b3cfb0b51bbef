"""Saving a session's state as TensorFlow checkpoints, and restoring it, so that a run can continue later.

`saved_values` converts objects to plain values and tensors, and `device_state` a device's state. `session_checkpoints` reads
and writes the files of one checkpoint.
"""
