"""Exceptions of the module, with plyvel's names."""

import builtins


class Error(Exception):
    """An error of the store; the base class of its other errors."""


class IOError(Error, builtins.IOError):
    """An operation of the file system failed, or the database is already open elsewhere."""


class CorruptionError(Error):
    """Bytes in a file contradict the format or a checksum."""


class ConflictError(Error):
    """Another write has changed what a transaction has read."""


class ChangesLostError(Error):
    """The logs do not contain all changes any more."""


class IteratorInvalidError(Error):
    """A raw iterator is at no entry."""


for _class in (
    Error,
    IOError,
    CorruptionError,
    ConflictError,
    ChangesLostError,
    IteratorInvalidError,
):
    _class.__module__ = 'minikv'
