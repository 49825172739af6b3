"""LevelDB-compatible key-value store with plyvel's interface.

>>> import minikv
>>> with minikv.DB('fruit.db', create_if_missing=True) as db:
...     db.put(b'apple', b'red')
...     db.get(b'apple')
b'red'
"""

import atexit
import os

from ._errors import CorruptionError, Error, IOError, IteratorInvalidError
from ._minikv import (
    DB,
    Iterator,
    PrefixedDB,
    RawIterator,
    Snapshot,
    WriteBatch,
    _close_all,
    _forked,
    destroy_db,
    open_read_only,
    repair_db,
    verify,
)

__version__ = '0.1.0'

# The version of LevelDB with the same file format.
__leveldb_version__ = '1.23'

__all__ = [
    'DB',
    'CorruptionError',
    'Error',
    'IOError',
    'Iterator',
    'IteratorInvalidError',
    'PrefixedDB',
    'RawIterator',
    'Snapshot',
    'WriteBatch',
    '__leveldb_version__',
    '__version__',
    'destroy_db',
    'open_read_only',
    'repair_db',
    'verify',
]

atexit.register(_close_all)
if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_forked)
