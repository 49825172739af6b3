"""LevelDB-compatible key-value store with plyvel's interface.

>>> import minikv
>>> with minikv.DB('fruit.db', create_if_missing=True) as db:
...     db.put(b'apple', b'red')
...     db.get(b'apple')
b'red'
"""

import atexit
import os

from ._errors import (
    ChangesLostError,
    ConflictError,
    CorruptionError,
    Error,
    IOError,
    IteratorInvalidError,
)
from ._minikv import (
    DB,
    Changes,
    Iterator,
    Keyspace,
    PrefixedDB,
    RawIterator,
    Snapshot,
    Transaction,
    WriteBatch,
    _close_all,
    _forked,
    backups,
    destroy_db,
    open_read_only,
    repair_db,
    restore,
    verify,
    verify_backups,
)
from ._records import Change, ChangeOperation, KeyspaceName

__version__ = '0.1.0'

# The version of LevelDB with the same file format.
__leveldb_version__ = '1.23'

__all__ = [
    'DB',
    'Change',
    'ChangeOperation',
    'Changes',
    'ChangesLostError',
    'ConflictError',
    'CorruptionError',
    'Error',
    'IOError',
    'Iterator',
    'IteratorInvalidError',
    'Keyspace',
    'KeyspaceName',
    'PrefixedDB',
    'RawIterator',
    'Snapshot',
    'Transaction',
    'WriteBatch',
    '__leveldb_version__',
    '__version__',
    'backups',
    'destroy_db',
    'open_read_only',
    'repair_db',
    'restore',
    'verify',
    'verify_backups',
]

atexit.register(_close_all)
if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_forked)
