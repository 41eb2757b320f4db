"""Command queues: commands, events, races between queues, and how long commands take."""
