"""The operator `in`, which looks a key up."""

import pytest

import minikv


@pytest.fixture
def filled(db):
    db.put(b'present', b'1')
    db.put(b'empty', b'')
    db.put(b'deleted', b'1')
    db.delete(b'deleted')
    db.put(b'p/inside', b'1')
    return db


def test_present_and_absent_keys(filled, path):
    with minikv.open_read_only(path) as reader:
        for place in (filled, filled.snapshot(), filled.transaction(), reader, reader.snapshot()):
            assert b'present' in place
            assert b'empty' in place
            assert b'deleted' not in place
            assert b'absent' not in place
            assert b'' not in place


def test_a_prefix_is_added(filled):
    for place in (filled.prefixed_db(b'p/'), filled.prefixed_db(b'p/').snapshot()):
        assert b'inside' in place
        assert b'present' not in place
        assert b'p/inside' not in place


def test_keyspaces_have_keys_of_their_own(filled):
    space = filled.keyspace(b'space')
    space.put(b'mine', b'1')
    for place in (space, space.snapshot(), filled.snapshot().keyspace(b'space')):
        assert b'mine' in place
        assert b'present' not in place
    assert b'mine' not in filled


def test_a_snapshot_shows_its_moment(filled):
    before = filled.snapshot()
    filled.put(b'later', b'1')
    filled.delete(b'present')
    assert b'later' not in before and b'present' in before
    assert b'later' in filled and b'present' not in filled


def test_it_is_a_lookup_and_no_scan(db):
    for n in range(5000):
        db.put(b'%05d' % n, b'x' * 100)
    db.compact_range()
    before = db.stats()
    assert b'04000' in db and b'absent' not in db
    after = db.stats()
    assert after['gets'] == before['gets'] + 2
    read = after['reads']['data_blocks_from_file'] - before['reads']['data_blocks_from_file']
    assert read <= 2


def test_only_bytes_are_keys(db):
    db.put(b'a', b'1')
    for place in (db, db.prefixed_db(b''), db.snapshot(), db.keyspace(b'a'), db.transaction()):
        for key in ('a', None, 1, (b'a', b'1')):
            with pytest.raises(TypeError):
                key in place


def test_closed_databases_and_damage_are_errors(path):
    db = minikv.DB(path, create_if_missing=True)
    places = (db, db.prefixed_db(b''), db.snapshot(), db.keyspace(b'a'), db.transaction())
    db.close()
    for place in places:
        with pytest.raises(RuntimeError, match='closed'):
            b'a' in place
