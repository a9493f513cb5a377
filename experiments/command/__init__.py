"""The command line: flags, files of flags, and how every program starts and ends."""
