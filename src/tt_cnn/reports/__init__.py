"""Readings of commands for people to look at."""
