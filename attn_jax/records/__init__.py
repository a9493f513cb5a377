"""The record of a run: its manifest, journal, progress, own code and provenance."""
