"""The command line: flags from the dataclasses of options, and a module for each program."""
