"""Threads that share a database, an iterator or a batch, and closing it while they run."""

import itertools
import sys
import threading
import time

import pytest

import minikv


def together(*functions):
    """Runs the functions in parallel threads and raises the exceptions that they raise."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), 'a thread hangs'
    for error in errors:
        raise error


@pytest.fixture(autouse=True)
def switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


def test_writers_and_readers(path):
    options = dict(create_if_missing=True, write_buffer_size=1 << 16)
    with minikv.DB(path, **options) as db:
        def write(name):
            for n in range(3000):
                db.put(b'%s-%04d' % (name, n), b'%d' % n)

        def read():
            for n in range(3000):
                value = db.get(b'a-%04d' % n)
                assert value in (None, b'%d' % n)

        def scan():
            for _ in range(20):
                keys = list(db.iterator(include_value=False))
                assert keys == sorted(set(keys))

        together(lambda: write(b'a'), lambda: write(b'b'), read, read, scan, db.compact_range)
        assert len(list(db)) == 6000


def test_an_iterator_shared_by_threads(db):
    for n in range(5000):
        db.put(b'%04d' % n, b'')
    it = db.iterator(include_value=False)
    found = []

    def take():
        found.extend(it)

    together(take, take, take)
    assert sorted(found) == [b'%04d' % n for n in range(5000)]


def test_a_batch_shared_by_threads(db):
    batch = db.write_batch()

    def fill(start):
        for n in range(start, start + 2000):
            batch.put(b'%04d' % n, b'')

    def write():
        for _ in range(50):
            batch.write()

    together(lambda: fill(0), lambda: fill(2000), write)
    batch.write()
    assert len(list(db)) == 4000


def test_batches_are_whole(db):
    done = threading.Event()

    def write():
        for n in range(500):
            with db.write_batch() as batch:
                for key in (b'a', b'b', b'c'):
                    batch.put(key, b'%d' % n)
        done.set()

    def read():
        while not done.is_set():
            with db.snapshot() as snapshot:
                assert len({snapshot.get(key) for key in (b'a', b'b', b'c')}) == 1

    together(write, read, read)


@pytest.mark.parametrize('round', range(5))
def test_close_while_threads_are_busy(path, round):
    db = minikv.DB(path, create_if_missing=True, write_buffer_size=1 << 16)
    for n in range(2000):
        db.put(b'%04d' % n, bytes(100))

    def until_closed(work):
        def repeat():
            with pytest.raises(RuntimeError, match='closed'):
                while True:
                    work()
        return repeat

    def close():
        time.sleep(0.1)
        db.close()
        # Nothing holds the database any more: it can be opened at once.
        minikv.DB(path).close()

    together(
        close,
        until_closed(lambda: db.get(b'0007')),
        until_closed(lambda: db.put(b'0007', bytes(100))),
        until_closed(lambda: list(db)),
        until_closed(lambda: list(itertools.islice(db.iterator(reverse=True), 10))),
        until_closed(lambda: db.snapshot().get(b'0007')),
        until_closed(lambda: db.write_batch().write()),
        until_closed(db.compact_range),
    )


def test_close_by_several_threads(path):
    db = minikv.DB(path, create_if_missing=True)
    together(*[db.close] * 5)


def test_other_threads_run_during_a_compaction(path):
    with minikv.DB(path, create_if_missing=True, compression=None) as db:
        for n in range(40):
            with db.write_batch() as batch:
                for key in range(2000):
                    batch.put(b'%08d' % (key * 7919 % 80000 + n), bytes(100))
        busy, ticks = threading.Event(), []

        def compact():
            busy.set()
            db.compact_range()
            busy.clear()

        def tick():
            busy.wait()
            while busy.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        together(compact, tick)
        assert len(ticks) > 5
