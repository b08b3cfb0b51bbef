"""Schedule of tasks that share streams, cores and links.

`links.py` shares links out among transfers; `events.py` runs tasks on streams, cores and links and gives a timeline.  Neither
knows what a task stands for: no graphs, ops or devices.
"""
