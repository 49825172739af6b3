"""Transactions."""

import gc
import threading

import pytest

import minikv


@pytest.fixture
def users(db):
    return db.keyspace(b'users')


def test_a_block_commits_at_its_end(db):
    with db.transaction(sync=True) as transaction:
        transaction.put(b'a', b'1')
        transaction.put(b'b', bytearray(b'2'))
        transaction.delete(b'b')
        assert transaction.get(b'a') == b'1' and db.get(b'a') is None
        assert transaction.get(b'b', b'none') == b'none'
    assert list(db) == [(b'a', b'1')]
    with pytest.raises(RuntimeError, match='transaction is closed'):
        transaction.get(b'a')


def test_an_exception_discards_the_writes(db):
    class Stop(Exception):
        pass

    with pytest.raises(Stop):
        with db.transaction() as transaction:
            transaction.put(b'a', b'1')
            raise Stop
    assert list(db) == []
    with pytest.raises(RuntimeError):
        transaction.commit()


def test_a_block_may_end_its_transaction_itself(db):
    with db.transaction() as transaction:
        transaction.put(b'a', b'1')
        transaction.commit()
    with db.transaction() as transaction:
        transaction.put(b'b', b'1')
        transaction.close()
        transaction.close()
    assert list(db) == [(b'a', b'1')]


def test_a_block_does_not_pass_over_a_commit_that_a_closed_database_prevents(path):
    db = minikv.DB(path, create_if_missing=True)
    with pytest.raises(RuntimeError, match='closed'):
        with db.transaction() as transaction:
            transaction.put(b'a', b'1')
            db.close()
    # What ended before the database did needs no commit.
    db = minikv.DB(path)
    with db.transaction() as committed, db.transaction() as closed:
        committed.put(b'b', b'1')
        committed.commit()
        closed.close()
        db.close()
    with pytest.raises(KeyError):
        db = minikv.DB(path)
        with db.transaction():
            db.close()
            raise KeyError
    with minikv.DB(path) as db:
        assert list(db) == [(b'b', b'1')]


def test_reads_show_the_moment_of_the_beginning(db):
    db.put(b'a', b'1')
    transaction = db.transaction()
    db.put(b'a', b'2')
    db.put(b'b', b'2')
    assert transaction.get(b'a') == b'1'
    assert list(transaction) == [(b'a', b'1')]


def test_a_commit_fails_if_what_it_read_was_changed_and_only_then(db, users):
    db.put(b'a', b'1')
    users.put(b'a', b'1')
    for read in (
        lambda t: t.get(b'a'),
        lambda t: b'a' in t,
        lambda t: list(t),
        lambda t: list(t.iterator(stop=b'b', reverse=True)),
    ):
        transaction = db.transaction()
        read(transaction)
        transaction.put(b'z', b'1')
        db.put(b'a', b'2')
        with pytest.raises(minikv.ConflictError, match='Conflict'):
            transaction.commit()
        assert db.get(b'z') is None
    transaction = db.transaction()
    transaction.get(b'a', keyspace=users)
    transaction.put(b'z', b'1')
    db.put(b'a', b'3')
    transaction.commit()
    assert db.get(b'z') == b'1'


def test_a_block_raises_the_conflict(db):
    with pytest.raises(minikv.ConflictError):
        with db.transaction() as transaction:
            transaction.get(b'a')
            transaction.put(b'b', b'1')
            db.put(b'a', b'1')
    assert b'b' not in db


def test_transact_runs_again_after_a_conflict(db):
    runs = []

    def body(transaction):
        runs.append(transaction.get(b'n'))
        if len(runs) < 3:
            db.put(b'n', b'%d' % len(runs))
        transaction.put(b'sum', runs[-1] or b'none')
        return len(runs)

    assert db.transact(body, sync=True) == 3
    assert runs == [None, b'1', b'2']
    assert db.get(b'sum') == b'2'


def test_transact_runs_again_if_body_commits_and_that_conflicts(db):
    runs = []

    def body(transaction):
        runs.append(transaction.get(b'n'))
        transaction.put(b'a', b'1')
        if len(runs) < 2:
            db.put(b'n', b'1')
            transaction.commit()

    db.transact(body)
    assert len(runs) == 2 and db.get(b'a') == b'1'


def test_an_exception_ends_transact_without_a_write(db):
    runs = []

    def body(transaction):
        runs.append(transaction)
        transaction.put(b'a', b'1')
        raise KeyError('no')

    with pytest.raises(KeyError, match='no'):
        db.transact(body)
    # The conflict of another transaction is an exception like any other.
    other = minikv.ConflictError('another')
    with pytest.raises(minikv.ConflictError, match='another'):
        db.transact(lambda transaction: (_ for _ in ()).throw(other))
    assert len(runs) == 1 and list(db) == []
    with pytest.raises(RuntimeError):
        runs[0].get(b'a')


def test_threads_count_to_the_sum(db):
    def add(transaction):
        transaction.put(b'n', b'%d' % (int(transaction.get(b'n', b'0')) + 1))

    def work():
        for _ in range(50):
            db.transact(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.get(b'n') == b'200'


def test_a_close_waits_for_commits_and_ends_the_other_transactions(path):
    db = minikv.DB(path, create_if_missing=True)
    done, texts = [], []

    def add(transaction):
        transaction.put(b'n', b'%d' % (int(transaction.get(b'n', b'0')) + 1))

    def work():
        try:
            while True:
                db.transact(add)
                done.append(1)
        except RuntimeError as error:
            texts.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(done) < 50:
        assert not texts
    db.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(texts) == 3 and all('closed' in text for text in texts)
    with minikv.DB(path) as db:
        assert int(db.get(b'n')) == len(done)


def test_iterators_show_the_transactions_own_writes(db, users):
    for n in range(0, 1000, 2):
        db.put(b'%04d' % n, b'')
        users.put(b'%04d' % n, b'')
    for space in (None, users):
        with db.transaction() as transaction:
            for n in range(1, 1000, 2):
                transaction.put(b'%04d' % n, b'', keyspace=space)
            transaction.delete(b'0500', keyspace=space)
            keys = [b'%04d' % n for n in range(1000) if n != 500]
            it = transaction.iterator(keyspace=space, prefix=b'0', include_value=False)
            assert list(it) == keys
            assert it.prev() == keys[-1] and it.prev() == keys[-2] and next(it) == keys[-2]
            it.seek(b'0500')
            assert next(it) == b'0501' and it.prev() == b'0501' and it.prev() == b'0499'
            back = transaction.iterator(
                keyspace=space, start=b'0010', stop=b'0020', reverse=True, include_stop=True,
                include_start=False, include_value=False)
            assert list(back) == keys[20:10:-1]
            transaction.close()


def test_an_iterator_goes_on_where_its_entry_was_deleted(db):
    for n in range(2000):
        db.put(b'%04d' % n, b'')
    for reverse in (False, True):
        transaction = db.transaction()
        found = []
        for key in transaction.iterator(reverse=reverse, include_value=False):
            found.append(key)
            transaction.delete(key)
        assert found == [b'%04d' % n for n in range(2000)][::-1 if reverse else 1]
        assert list(transaction) == []
        it = transaction.iterator(include_value=False)
        with pytest.raises(StopIteration):
            next(it)
        transaction.close()


def test_transactions_write_to_keyspaces(db, users):
    sessions = db.keyspace(b'sessions', expiring=True)
    with db.transaction() as transaction:
        transaction.put(b'ann', b'1', keyspace=users)
        transaction.put(b's', b'ann', keyspace=sessions, ttl=1000)
        transaction.put(b'gone', b'ann', keyspace=sessions, expires=1)
        transaction.delete(b'bob', keyspace=users)
        assert transaction.get(b'gone', keyspace=sessions) is None
        assert transaction.get(b'ann') is None
        with pytest.raises(ValueError, match='expiring'):
            transaction.put(b'a', b'', keyspace=users, ttl=1)
        with pytest.raises(ValueError, match='expiring'):
            transaction.put(b'a', b'', ttl=1)
    assert users.get(b'ann') == b'1' and list(sessions) == [(b's', b'ann')]


def test_a_keyspace_of_another_database_is_refused(db, tmp_path):
    with minikv.DB(tmp_path / 'other', create_if_missing=True) as other:
        space = other.keyspace(b'a')
        transaction = db.transaction()
        for call in (
            lambda: transaction.get(b'a', keyspace=space),
            lambda: transaction.put(b'a', b'', keyspace=space),
            lambda: transaction.delete(b'a', keyspace=space),
            lambda: transaction.iterator(keyspace=space),
        ):
            with pytest.raises(ValueError, match='keyspace'):
                call()


def test_a_transaction_ends_with_its_database(path):
    db = minikv.DB(path, create_if_missing=True)
    transaction = db.transaction()
    transaction.put(b'a', b'1')
    it = iter(transaction)
    db.close()
    for call in (
        transaction.commit, lambda: transaction.get(b'a'), lambda: transaction.put(b'a', b''),
        lambda: transaction.iterator(), lambda: next(it),
    ):
        with pytest.raises(RuntimeError, match='closed'):
            call()
    transaction.close()
    with pytest.raises(RuntimeError):
        db.transaction()
    with minikv.DB(path) as db:
        assert list(db) == []


def test_a_transaction_that_is_left_open_lets_its_database_close(path):
    db = minikv.DB(path, create_if_missing=True)
    transaction = db.transaction()
    it = transaction.iterator()
    del db
    transaction.put(b'a', b'1')
    assert next(it) == (b'a', b'1')
    del transaction
    gc.collect()
    with pytest.raises(RuntimeError, match='closed'):
        next(it)
    del it
    gc.collect()
    minikv.DB(path).close()


def test_a_reader_has_no_transactions(db, path):
    with minikv.open_read_only(path) as reader:
        with pytest.raises(minikv.Error, match='reading only'):
            reader.transaction()
        with pytest.raises(minikv.Error, match='reading only'):
            reader.transact(lambda transaction: None)


def test_wrong_types(db):
    transaction = db.transaction()
    for call in (
        lambda: transaction.get('a'), lambda: transaction.put('a', b''),
        lambda: transaction.put(b'a', 'text'), lambda: transaction.put(b'a'),
        lambda: transaction.get(b'a', keyspace=b'users'), lambda: transaction.delete(None),
        lambda: transaction.iterator(prefix=b'a', start=b'a'), lambda: db.transact(None),
        lambda: db.transaction(True), lambda: minikv.Transaction(),
    ):
        with pytest.raises(TypeError):
            call()
