"""The record of a run: its folder, journal, progress, facts and provenance."""
