"""Checks of what users bring along: parts of mechanisms, losses, cells, encoders and decoders."""
