"""How long a step would take on a machine that need not be there.

`links.py` shares links out among transfers; `events.py` runs tasks on streams, cores and links and gives a timeline.  Neither
knows what a task stands for: no graphs, ops or devices.
"""
