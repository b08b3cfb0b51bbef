"""A graph, a machine and options -> an outcome: what the command line and Python callers share.

Only what `devices` needs is imported with it; numpy and the rest come with the first graph.
"""
