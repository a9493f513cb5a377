"""The checker of types in tests: beartype, which takes an int for a float, as type checkers do."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
