"""A program without an error of types. Type checkers read it; nothing runs it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import List, Optional, Tuple

from typing_extensions import assert_type

import minikv
from minikv import reports


def reads(db: minikv.DB) -> None:
    assert_type(db.get(b'a'), Optional[bytes])
    color: bytes = db.get(b'a', b'none')
    for key, value in db:
        assert_type((key, value), Tuple[bytes, bytes])
    for place in (db.prefixed_db(b'a'), db.snapshot(), db.keyspace(b'a')):
        assert_type(list(place.iterator(include_value=False)), List[bytes])
    it = db.iterator(prefix=b'a', include_key=False, reverse=True)
    assert_type(it, minikv.Iterator[bytes])
    assert_type(it.prev(), bytes)
    assert_type(next(db.iterator(include_key=True, include_value=True)), Tuple[bytes, bytes])
    pairs: minikv.Iterator[Tuple[bytes, bytes]] = db.iterator(start=b'a', stop=b'z')
    if b'a' in db and b'a' not in db.snapshot():
        print(color, pairs)


def blocks(db: minikv.DB) -> List[int]:
    explanation: reports.Explanation = db.explain(b'a')
    assert_type(explanation['this_get']['levels'][0]['data_blocks_from_file'], int)
    return [step['offset'] for step in explanation['steps'] if step['step'] == 'block']


def writes(db: minikv.DB) -> None:
    users = db.keyspace(b'users')
    sessions = db.keyspace(b'sessions', expiring=True)
    sessions.put(b's', b'ann', ttl=timedelta(hours=1), sync=True)
    sessions.put(b's', bytearray(b'ann'), expires=datetime.now())
    assert_type(sessions.expiry(b's'), Optional[float])
    names: List[bytes] = [space.name for space in db.keyspaces()]
    with sessions.write_batch() as batch:
        batch.put(b't', b'bob', ttl=0.5)
    with db.transaction(sync=True) as transaction:
        transaction.put(b'ann', transaction.get(b'ann', b'', keyspace=users), keyspace=users)
        keys: List[bytes] = list(transaction.iterator(keyspace=users, include_value=False))
        assert_type(next(iter(transaction)), Tuple[bytes, bytes])

    def count(inner: minikv.Transaction) -> int:
        return len(list(inner))

    assert_type(db.transact(count), int)
    print(names, keys)


def changes(db: minikv.DB) -> None:
    with db.changes(db.sequence) as since:
        for change in since:
            for operation in change.operations:
                if operation.type == 'put' and operation.keyspace is not None:
                    print(operation.keyspace.name, operation.value, operation.expires)
    made: reports.Backup = db.backup('folder', keep=7)
    assert_type(minikv.backups('folder'), List[reports.Backup])
    minikv.restore('folder', 'copy.db', number=made['number'])
    print([fault['what'] for fault in minikv.verify_backups('folder')])
