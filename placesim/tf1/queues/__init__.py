"""Queues, readers, and the batches made with them."""
