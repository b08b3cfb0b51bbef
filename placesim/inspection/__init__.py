"""Inspections of a placement, live or from a report: its snapshot, and the packages that answer questions about it."""
