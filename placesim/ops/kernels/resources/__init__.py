"""Shared state of steps beside variables: queues, staging areas, barriers, tables, readers, files, summaries; Python's
functions.
"""
