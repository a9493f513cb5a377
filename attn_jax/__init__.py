"""Encoder-decoder attention in JAX: compare, train, inspect and use it.

The public names are listed in `__init__.pyi`; what they come from is imported when first used.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
