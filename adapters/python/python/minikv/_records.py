"""Tuples that the module returns."""

from __future__ import annotations

from typing import List, Literal, NamedTuple, Optional


class KeyspaceName(NamedTuple):
    """Name and kind of a keyspace."""

    name: bytes
    expiring: bool


class ChangeOperation(NamedTuple):
    """An operation of a change: a put or a delete.

    keyspace is the keyspace that contains the key, if any. In an expiring keyspace, expires is the
    time at which the entry expires, in seconds since 1970, or infinity for never.
    """

    type: Literal['put', 'delete']
    key: bytes
    value: Optional[bytes] = None
    keyspace: Optional[KeyspaceName] = None
    expires: Optional[float] = None


class Change(NamedTuple):
    """A batch of operations that was committed.

    sequence is the sequence number of the first operation; the later ones have the following
    numbers.
    """

    sequence: int
    operations: List[ChangeOperation]


for _class in (KeyspaceName, ChangeOperation, Change):
    _class.__module__ = 'minikv'
