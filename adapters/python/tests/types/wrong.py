"""A program with an error of types in each line that ends with `wrong`; nothing runs it."""

from __future__ import annotations

from typing import List

import minikv


def program(db: minikv.DB, users: minikv.Keyspace) -> None:
    db.get('a')  # wrong
    length: int = len(db.get(b'a'))  # wrong
    for key, value in db.iterator(include_value=False):
        key.decode()  # wrong
    keys: List[str] = list(db.iterator(include_value=False))  # wrong
    pair: bytes = next(db.iterator())  # wrong
    'a' in db  # wrong
    db.explain(b'a')['step']  # wrong
    offset: str = db.explain(b'a')['sequence']  # wrong
    users.put(b'a', b'1', ttl='1h')  # wrong
    db.put(b'a', b'1', ttl=1)  # wrong
    db.transaction().put(b'a')  # wrong
    text: str = db.transact(lambda transaction: 1)  # wrong
    db.keyspace('users')  # wrong
    db.changes('0')  # wrong
    next(db.changes()).operations[0].name  # wrong
    minikv.restore('folder')  # wrong
    db.sequence = 1  # wrong
    minikv.Keyspace(b'a')  # wrong
    print(length, keys, pair, offset, text)
