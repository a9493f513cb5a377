"""Checks of what users bring along: parts of mechanisms."""
