"""A device's memory as TensorFlow hands it out: the BFC allocator, the driver beneath it, and what it logs.

`allocator.py` takes sizes and gives chunks of a `allocator_state.py`; `sub_allocator.py` is the driver that its regions come
from; `allocator_log.py` is what TensorFlow prints when there is no room.  Nothing here knows of graphs, kernels or sessions.
"""
