"""Fuzzers of the command line: generated inputs by surface, run in worker processes, and what comes of them judged.

`make fuzz SECONDS=600`, or `python -m tests.fuzz --surface graphs --seed 1 --keep DIR`.
"""
