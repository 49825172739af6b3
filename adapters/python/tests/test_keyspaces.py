"""Keyspaces, and entries that expire."""

import math
import os
import time
from datetime import datetime, timedelta, timezone

import pytest

import minikv


def test_keyspaces_hold_keys_of_their_own(db):
    users, mails = db.keyspace(b'users'), db.keyspace(b'mails')
    users.put(b'a', b'user', sync=True)
    mails.put(b'a', b'mail')
    mails.put(b'b', b'mail')
    db.put(b'a', b'none')
    assert (users.get(b'a'), mails.get(b'a'), db.get(b'a')) == (b'user', b'mail', b'none')
    assert users.get(b'b') is None and users.get(b'b', 3) == 3
    assert list(users) == [(b'a', b'user')]
    mails.delete(b'a')
    assert list(mails) == [(b'b', b'mail')]
    assert db.keyspaces() == [(b'mails', False), (b'users', False)]
    assert db.keyspaces()[0].name == b'mails'
    assert db.keyspace(b'users').get(b'a') == b'user'


def test_ranges_and_iterators(db):
    space = db.keyspace(b'n')
    keys = [b'%03d' % n for n in range(600)]
    with space.write_batch() as batch:
        for key in keys:
            batch.put(key, key)
    db.keyspace(b'm').put(b'x', b'')
    db.keyspace(b'o').put(b'x', b'')
    assert [key for key, value in space] == keys
    assert list(space.iterator(reverse=True, include_value=False)) == keys[::-1]
    assert list(space.iterator(prefix=b'12', include_key=False)) == keys[120:130]
    assert list(space.iterator(start=b'598')) == [(key, key) for key in keys[598:]]
    it = space.iterator(stop=b'300', include_value=False)
    it.seek_to_stop()
    assert it.prev() == b'299'
    it.seek(b'100')
    assert next(it) == b'100' and it.prev() == b'100' and it.prev() == b'099'
    space.delete_range(b'100', b'500', sync=True)
    assert list(space.iterator(include_value=False)) == keys[:100] + keys[500:]
    space.compact_range(start=b'0', stop=b'9')
    for n in range(600, 800):
        space.put(b'%03d' % n, os.urandom(1000))
    space.compact_range(start=b'0')
    assert space.approximate_size(b'6', b'8') > 100_000
    assert space.approximate_size(b'1', b'4') < 10_000
    assert space.explain(b'050')['found'] and not space.explain(b'100')['found']
    space.delete_range(None, None)
    assert db.keyspaces() == [(b'm', False), (b'o', False)]


def test_batches_of_keyspaces_are_joined(db):
    users = db.keyspace(b'users')
    sessions = db.keyspace(b'sessions', expiring=True)
    batch = db.write_batch(transaction=True)
    batch.put(b'a', b'1')
    with pytest.raises(ValueError, match='expiring'):
        batch.put(b'a', b'1', ttl=1)
    of_users = users.write_batch()
    of_users.put(b'a', b'2')
    of_users.put(b'b', b'2')
    of_users.delete(b'b')
    of_sessions = sessions.write_batch()
    of_sessions.put(b's', b'3', ttl=1000)
    of_sessions.put(b'gone', b'3', expires=0)
    of_sessions.put(b'stays', b'3')
    batch.append(of_users)
    batch.append(of_sessions)
    batch.write()
    assert db.get(b'a') == b'1' and list(users) == [(b'a', b'2')]
    assert list(sessions) == [(b's', b'3'), (b'stays', b'3')]


def test_a_snapshot_shows_all_keyspaces_at_its_moment(db):
    users, mails = db.keyspace(b'users'), db.keyspace(b'mails')
    users.put(b'a', b'1')
    mails.put(b'a', b'1')
    before, of_users = db.snapshot(), users.snapshot()
    users.put(b'a', b'2')
    users.put(b'b', b'2')
    mails.delete(b'a')
    for snapshot in (of_users, before.keyspace(b'users'), before.keyspace(b'mails')):
        assert list(snapshot) == [(b'a', b'1')]
        assert snapshot.get(b'a') == b'1' and b'b' not in snapshot
        assert snapshot.explain(b'a')['found']
        raw = snapshot.raw_iterator()
        raw.seek_to_last()
        assert raw.item() == (b'a', b'1')
    inner = before.keyspace(b'users')
    before.close()
    with pytest.raises(RuntimeError, match='snapshot is closed'):
        inner.get(b'a')


def test_names(db):
    for wrong in (b'', b'x' * 256):
        for place in (db, db.snapshot()):
            with pytest.raises(ValueError, match='1 to 255 bytes'):
                place.keyspace(wrong)
    for wrong in ('users', None, 1):
        with pytest.raises(TypeError):
            db.keyspace(wrong)
    space = db.keyspace(b'\xff\x00' * 100, expiring=True)
    space.put(b'', b'')
    assert list(space) == [(b'', b'')]
    assert db.keyspaces() == [(b'\xff\x00' * 100, True)]
    assert space.db is db and space.name == b'\xff\x00' * 100 and space.expiring
    assert repr(db.keyspace(b'a')).startswith("<minikv.Keyspace with name b'a' at 0x")
    assert repr(space).split(' at ')[0].endswith('(expiring)')


def test_a_database_with_a_comparator_has_no_keyspaces(path):
    def compare(a, b):
        return (a > b) - (a < b)

    with minikv.DB(path, create_if_missing=True, comparator=compare,
                   comparator_name=b'mine') as db:
        for call in (lambda: db.keyspace(b'a'), lambda: db.snapshot().keyspace(b'a')):
            with pytest.raises(minikv.Error, match='mine'):
                call()
        # Keys that begin as those of keyspaces do are ordinary keys.
        db.put(b'\xff\xfeks\x01ab', b'1')
        assert next(db.changes(0)).operations == [('put', b'\xff\xfeks\x01ab', b'1', None, None)]


def test_keyspaces_close_with_their_database(path):
    db = minikv.DB(path, create_if_missing=True)
    space = db.keyspace(b'a')
    batch = space.write_batch()
    it = iter(space)
    db.close()
    for call in (
        lambda: space.get(b'a'), lambda: space.put(b'a', b''), lambda: space.delete(b'a'),
        lambda: space.write_batch(), lambda: batch.put(b'a', b''), lambda: list(it),
        lambda: space.snapshot(), lambda: space.expiry(b'a'), lambda: iter(space),
    ):
        with pytest.raises(RuntimeError, match='closed'):
            call()


def test_a_keyspace_keeps_its_database_open(path):
    space = minikv.DB(path, create_if_missing=True).keyspace(b'a')
    space.put(b'a', b'1')
    assert space.get(b'a') == b'1'
    with pytest.raises(minikv.IOError):
        minikv.DB(path)
    del space
    minikv.DB(path).close()


def test_a_reader_has_keyspaces(db, path):
    space = db.keyspace(b'a')
    space.put(b'a', b'1')
    with minikv.open_read_only(path) as reader:
        other = reader.keyspace(b'a')
        assert list(other) == [(b'a', b'1')] and reader.keyspaces() == [(b'a', False)]
        for call in (
            lambda: other.put(b'a', b''), lambda: other.delete(b'a'),
            lambda: other.delete_range(None, None), lambda: other.compact_range(),
        ):
            with pytest.raises(minikv.Error, match='reading only'):
                call()


def test_entries_expire(db):
    space = db.keyspace(b's', expiring=True)
    now = time.time()
    space.put(b'never', b'0')
    space.put(b'ttl', b'1', ttl=3600)
    space.put(b'timedelta', b'2', ttl=timedelta(hours=1))
    space.put(b'expires', b'3', expires=now + 3600)
    space.put(b'datetime', b'4', expires=datetime(2100, 1, 1, tzinfo=timezone.utc))
    space.put(b'gone', b'5', ttl=0)
    space.put(b'past', b'6', expires=datetime(2000, 1, 1))
    space.put(b'far', b'7', ttl=math.inf)
    space.put(b'further', b'8', expires=1e300)
    assert space.get(b'gone') is None and b'past' not in space
    assert [key for key, value in space] == [
        b'datetime', b'expires', b'far', b'further', b'never', b'timedelta', b'ttl']
    assert space.expiry(b'never') == space.expiry(b'far') == space.expiry(b'further') == math.inf
    for key in (b'ttl', b'timedelta', b'expires'):
        assert abs(space.expiry(key) - now - 3600) < 60
    assert space.expiry(b'datetime') == datetime(2100, 1, 1, tzinfo=timezone.utc).timestamp()
    assert space.expiry(b'gone') is None and space.expiry(b'absent') is None
    # The keyspace is found without the argument, too.
    assert db.keyspace(b's').expiring and db.keyspace(b's').get(b'ttl') == b'1'
    assert db.snapshot().keyspace(b's').get(b'ttl') == b'1'
    ordinary = db.keyspace(b'ordinary')
    ordinary.put(b'a', b'1')
    assert not ordinary.expiring and ordinary.expiry(b'a') == math.inf
    with pytest.raises(minikv.Error, match='do not expire'):
        db.keyspace(b'ordinary', expiring=True)


def test_two_keyspaces_of_one_name_are_told_apart(db):
    db.keyspace(b's', expiring=True).put(b'a', b'1')
    db.put(b'\xff\xfeks\x01sa', b'2')  # as earlier builds put into another keyspace
    assert db.keyspaces() == [(b's', False), (b's', True)]
    with pytest.raises(minikv.Error, match='two keyspaces'):
        db.keyspace(b's')
    assert db.keyspace(b's', expiring=False).get(b'a') == b'2'
    assert db.keyspace(b's', expiring=True).get(b'a') == b'1'


def test_an_expiry_is_the_one_that_was_given(db):
    space = db.keyspace(b's', expiring=True)
    for millis in range(4_000_000_000_000, 4_000_000_001_000, 7):
        space.put(b'a', b'', expires=millis / 1000)
        assert space.expiry(b'a') == millis / 1000
        space.put(b'a', b'', expires=space.expiry(b'a'))
        assert space.expiry(b'a') == millis / 1000


def test_an_iterator_goes_on_where_its_entry_has_expired(db):
    space = db.keyspace(b's', expiring=True)
    for n in range(0, 1000):
        space.put(b'%03d' % n, b'', expires=time.time() + 1.5 if n % 2 else None)
    forward, back = space.iterator(include_value=False), space.iterator(include_value=False)
    last = space.iterator(reverse=True, include_value=False)
    forward.seek(b'101')
    assert next(forward) == b'101'
    back.seek(b'101')
    assert next(back) == b'101' and next(last) == b'999'
    while b'999' in space:
        time.sleep(0.05)
    assert next(last) in (b'998', b'997')
    assert next(forward) == b'102'
    assert back.prev() == b'101' and back.prev() == b'100'
    rest = list(forward)
    assert rest[-1] == b'998' and [key for key in rest if int(key) % 2 == 0] == [
        b'%03d' % n for n in range(104, 1000, 2)]


def test_wrong_expiries(db):
    ordinary, space = db.keyspace(b's'), db.keyspace(b's', expiring=True)
    for place in (space, space.write_batch()):
        for wrong, error in (
            (dict(ttl=-1), ValueError), (dict(expires=math.nan), ValueError),
            (dict(ttl=timedelta(seconds=-1)), ValueError), (dict(ttl='1h'), TypeError),
            (dict(expires='now'), TypeError), (dict(ttl=1, expires=1), TypeError),
            (dict(expires=timedelta(1)), TypeError), (dict(ttl=datetime.now()), TypeError),
        ):
            with pytest.raises(error, match="'ttl'|'expires'"):
                place.put(b'a', b'', **wrong)
    for place in (ordinary, ordinary.write_batch(), db.write_batch()):
        with pytest.raises(ValueError, match='expiring'):
            place.put(b'a', b'', expires=1)
    assert list(db) == []
