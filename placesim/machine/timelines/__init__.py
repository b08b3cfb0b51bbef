"""Simulation of tasks that share streams, cores and links.

`bandwidth_sharing` divides the bandwidth of links among transfers; `event_simulation` runs tasks and returns a timeline.  Both
are independent of graphs, ops and devices.
"""
