"""Changes of a database, and backups."""

import math
import os

import pytest

import minikv


def test_changes_are_the_batches_after_a_sequence_number(db):
    db.put(b'before', b'')
    users = db.keyspace(b'users')
    sessions = db.keyspace(b'sessions', expiring=True)
    assert db.sequence == 1
    changes = db.changes()
    assert list(changes) == [] and changes.sequence == 1
    db.put(b'a', b'1')
    users.put(b'b', b'2')
    with db.transaction() as transaction:
        transaction.delete(b'a')
        transaction.put(b's', b'3', keyspace=sessions, expires=4e9)
        transaction.put(b't', b'', keyspace=sessions)
    found = list(changes)
    assert [change.sequence for change in found] == [2, 3, 4]
    assert found[0].operations == [('put', b'a', b'1', None, None)]
    assert found[1].operations == [('put', b'b', b'2', (b'users', False), None)]
    last = sorted(found[2].operations, key=lambda operation: operation.key)
    assert last == [
        ('delete', b'a', None, None, None),
        ('put', b's', b'3', (b'sessions', True), 4e9),
        ('put', b't', b'', (b'sessions', True), math.inf),
    ]
    assert last[1].type == 'put' and last[1].keyspace.name == b'sessions'
    assert changes.sequence == db.sequence == 6
    sessions.delete(b's')
    assert next(changes).operations == [('delete', b's', None, (b'sessions', True), None)]
    assert [change.sequence for change in db.changes(2)] == [3, 4, 7]


def test_an_iteration_that_was_left_continues_where_it_was(db):
    for n in range(100):
        db.put(b'%d' % n, b'')
    changes = db.changes(0)
    for change in changes:
        if change.sequence == 30:
            break
    assert changes.sequence == 30
    assert [change.sequence for change in changes] == list(range(31, 101))
    db.put(b'a', b'')
    assert next(changes).sequence == 101
    with pytest.raises(StopIteration):
        next(changes)


def test_keys_that_are_no_whole_names_of_keyspaces(db):
    for key in (b'\xff\xfek', b'\xff\xfeks', b'\xff\xfeks\x00', b'\xff\xfeks\x05abc',
                b'\xff\xfeku\x01ab'):
        db.put(key, b'1')
        assert db.changes(db.sequence - 1).__next__().operations == [
            ('put', key, b'1', None, None)]
    # A value that is too short for an expiry is returned as it is stored.
    db.put(b'\xff\xfekt\x01ab', b'1')
    assert next(db.changes(db.sequence - 1)).operations == [
        ('put', b'b', b'1', (b'a', True), None)]


def test_a_reader_gets_the_changes_of_a_writer(db, path):
    with minikv.open_read_only(path) as reader:
        changes = reader.changes(0)
        db.put(b'a', b'1')
        assert [change.sequence for change in changes] == [1]
        db.put(b'b', b'1')
        assert [change.sequence for change in changes] == [2]


def fill(path, **options):
    with minikv.DB(path, create_if_missing=True, write_buffer_size=1, **options) as db:
        for n in range(200):
            db.put(b'%d' % n, os.urandom(1000))
        db.compact_range()
    return minikv.DB(path, **options)


def test_changes_that_are_in_no_log_any_more_are_an_error(path):
    with fill(path) as db:
        with pytest.raises(minikv.ChangesLostError):
            list(db.changes(0))
        assert issubclass(minikv.ChangesLostError, minikv.Error)
        assert list(db.changes(db.sequence)) == []


@pytest.mark.parametrize('option', [dict(keep_logs_bytes=1 << 30), dict(keep_logs_for=3600)])
def test_logs_are_kept(path, option):
    with fill(path, **option) as db:
        changes = list(db.changes(0))
        assert len(changes) == 200 and changes[199].operations[0].key == b'199'


def test_changes_close_and_with_their_database(path):
    db = minikv.DB(path, create_if_missing=True)
    with db.changes(0) as closed:
        pass
    with db.changes(0) as changes:
        db.close()
        for each in (closed, changes):
            with pytest.raises(RuntimeError, match='closed'):
                next(each)
            with pytest.raises(RuntimeError, match='closed'):
                each.sequence
    with pytest.raises(RuntimeError):
        db.changes()


def test_backups_are_made_listed_verified_restored_and_removed(db, tmp_path):
    folder = tmp_path / 'backups'
    made = []
    for n in range(3):
        db.put(b'n', b'%d' % n)
        made.append(db.backup(folder))
    assert [backup['number'] for backup in made] == [1, 2, 3]
    assert minikv.backups(folder) == made
    assert minikv.verify_backups(str(folder)) == []
    assert minikv.restore(folder, tmp_path / 'second', number=2) == made[1]
    assert minikv.restore(folder, os.fsencode(tmp_path / 'last')) == made[2]
    for name, value in (('second', b'1'), ('last', b'2')):
        with minikv.DB(tmp_path / name) as restored:
            assert restored.get(b'n') == value
    latest = db.backup(folder, keep=2)
    assert minikv.backups(folder) == [made[2], latest]
    with pytest.raises(minikv.Error):
        minikv.restore(folder, tmp_path / 'first', number=1)
    with pytest.raises(minikv.Error):
        minikv.restore(folder, tmp_path / 'last')


def test_damage_of_a_backup_is_found(db, tmp_path):
    folder = tmp_path / 'backups'
    db.put(b'a', b'x' * 10000)
    db.compact_range()
    db.backup(folder)
    files = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
    with open(max(files, key=os.path.getsize), 'r+b') as file:
        file.seek(100)
        file.write(b'\x55\xaa')
    faults = minikv.verify_backups(folder)
    assert faults and faults[0]['file']
    with pytest.raises(minikv.Error):
        minikv.restore(folder, tmp_path / 'copy')


def test_wrong_arguments(db, path, tmp_path):
    for wrong in (dict(keep=0), dict(keep=-1)):
        with pytest.raises((ValueError, OverflowError)):
            db.backup(tmp_path / 'backups', **wrong)
    assert not (tmp_path / 'backups').exists()
    for call in (
        lambda: db.backup(), lambda: db.backup(3), lambda: db.backup(path, keep='7'),
        lambda: minikv.backups(None), lambda: minikv.restore(path), lambda: db.changes('0'),
        lambda: minikv.restore(path, path, number='1'), lambda: minikv.Changes(),
        lambda: minikv.verify_backups(1),
        lambda: minikv.DB(path + '2', keep_logs_for='1h'),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        minikv.DB(path + '2', keep_logs_for=-1)
    with pytest.raises(OverflowError):
        db.changes(-1)
    with pytest.raises(minikv.Error):
        minikv.restore(tmp_path / 'missing', tmp_path / 'copy')
    with minikv.open_read_only(path) as reader:
        with pytest.raises(minikv.Error, match='reading only'):
            reader.backup(tmp_path / 'backups')
