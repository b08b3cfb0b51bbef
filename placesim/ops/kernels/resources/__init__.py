"""State that steps share, except variables: queues, staging areas, barriers, tables, readers, files, summaries; and
calls of Python functions.
"""
