"""Save a session's state as TensorFlow checkpoints, and restore it, so that a run can continue after its end.

- `values` are objects as plain values and tensors, `devices` what a device keeps as such
- `sessions` are the files of one checkpoint, `runs` when a run writes which, and where it goes on
"""
