"""State that steps share, except variables: queues, staging areas, barriers, tables, readers, files, summaries; Python's
functions.
"""
