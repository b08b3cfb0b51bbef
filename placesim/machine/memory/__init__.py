"""Simulation of a device's memory in TensorFlow: the BFC allocator, the driver beneath it, and their log.

`allocator.py` allocates chunks, which `allocator_state.py` describes; `sub_allocator.py` is the driver that provides regions.
`allocator_log.py` has the lines that TensorFlow logs when memory runs out.  This package knows no graphs, kernels or sessions.
"""
