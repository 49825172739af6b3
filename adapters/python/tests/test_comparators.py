"""Comparators written in Python, and what happens when they fail."""

import gc
import random
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import minikv


def backwards(a, b):
    return (a < b) - (a > b)


class Failing:
    """Byte order, until an error is set, which is then raised."""

    def __init__(self):
        self.error = None

    def __call__(self, a, b):
        if self.error is not None:
            raise self.error
        return (a > b) - (a < b)


def open_with(path, comparator, **options):
    options.setdefault('create_if_missing', True)
    return minikv.DB(path, comparator=comparator, comparator_name=b'test.order', **options)


def test_order(path):
    keys = [b'%05d' % n for n in range(5000)]
    shuffled = keys[:]
    random.Random(1).shuffle(shuffled)
    with open_with(path, backwards, write_buffer_size=1 << 16) as db:
        for key in shuffled:
            db.put(key, key[::-1])
        assert list(db.iterator(include_value=False)) == keys[::-1]
        db.compact_range()
    with open_with(path, backwards) as db:
        assert list(db.iterator(include_value=False, reverse=True)) == keys
        found = list(db.iterator(start=b'00700', stop=b'00690', include_value=False))
        assert found == [b'%05d' % n for n in range(700, 690, -1)]
        assert db.get(b'04711') == b'11740'


def test_equal_keys_with_different_bytes(path):
    def order(a, b):
        a, b = a.lower(), b.lower()
        return (a > b) - (a < b)
    with open_with(path, order, bloom_filter_bits=10) as db:
        db.put(b'Key', b'1')
        db.compact_range()
        assert db.get(b'kEY') == b'1'
        db.put(b'KEY', b'2')
        assert [value for _, value in db] == [b'2']
        assert list(db.iterator(start=b'key', include_start=False)) == []


@pytest.mark.parametrize('sign', [1.5, True, 10**30, 2])
def test_signs_of_many_kinds(path, sign):
    with open_with(path, lambda a, b: sign * ((a > b) - (a < b))) as db:
        for key in (b'b', b'a', b'c'):
            db.put(key, b'')
        assert [key for key, _ in db] == [b'a', b'b', b'c']


def test_reads_raise_what_the_comparator_raises(path):
    order = Failing()
    with open_with(path, order) as db:
        for n in range(100):
            db.put(b'%d' % n, b'')
        it = db.iterator(start=b'5')
        raw = db.raw_iterator()
        order.error = ZeroDivisionError('no order')
        for call in (lambda: next(it), lambda: list(db.iterator()), lambda: raw.seek(b'7'),
                     lambda: it.seek(b'9')):
            with pytest.raises(ZeroDivisionError, match='no order'):
                call()
        order.error = None
        assert next(it) == (b'5', b'')
        raw.seek(b'7')
        assert raw.key() == b'7'
        assert len(list(db)) == 100
        db.put(b'x', b'')


def test_a_comparator_without_a_sign(path):
    answers = {'now': 0}
    with open_with(path, lambda a, b: answers['now'] or (a > b) - (a < b)) as db:
        for n in range(10):
            db.put(b'%d' % n, b'')
        for wrong in ('text', [1], object()):
            answers['now'] = wrong
            with pytest.raises(TypeError):
                list(db)
        answers['now'] = 0
        assert len(list(db)) == 10


def test_a_failed_flush_stops_writes_until_resume(path, monkeypatch):
    order = Failing()
    reported = []
    monkeypatch.setattr(sys, 'unraisablehook', lambda args: reported.append(args.exc_value))
    with open_with(path, order, write_buffer_size=1 << 16) as db:
        for n in range(100):
            db.put(b'%05d' % n, bytes(100))
        order.error = ValueError('no order')
        with pytest.raises(minikv.Error, match='no order') as caught:
            for n in range(100000):
                db.put(b'%05d' % n, bytes(100))
                time.sleep(0 if n < 2000 else 0.01)
        assert 'panicked' in str(caught.value)
        assert reported and str(reported[0]) == 'no order'
        # Further writes fail, too.
        with pytest.raises(minikv.Error):
            db.put(b'a', b'')
        order.error = None
        assert db.get(b'00007') == bytes(100)
        db.resume()
        db.put(b'zz', b'1')
        keys = list(db.iterator(include_value=False))
        assert keys == sorted(set(keys)) and keys[-1] == b'zz'
        before = len(keys)
    with open_with(path, order) as db:
        assert len(list(db)) == before


def test_a_failed_compaction_is_an_error(path, monkeypatch):
    monkeypatch.setattr(sys, 'unraisablehook', lambda args: None)
    order = Failing()
    with open_with(path, order) as db:
        for n in range(1000):
            db.put(b'%05d' % (n * 7919 % 1000), b'')
        order.error = ValueError('no order')
        with pytest.raises((minikv.Error, ValueError), match='no order'):
            db.compact_range()
        order.error = None
        db.resume()
        db.compact_range()
        assert len(list(db)) == 1000


def test_a_failed_write_has_the_exception_as_its_cause(path):
    order = Failing()
    with open_with(path, order) as db:
        for n in range(1000):
            db.put(b'%05d' % n, b'')
        db.compact_range()
        order.error = error = ValueError('no order')
        with pytest.raises(minikv.Error, match='the comparator test.order raised') as caught:
            db.delete_range(b'00003', b'00007')
        assert caught.value.__cause__ is error
        with pytest.raises(minikv.Error, match='no writes since then'):
            db.put(b'a', b'')
        with pytest.raises(ValueError):
            minikv.verify(path, comparator=order, comparator_name=b'test.order')
        order.error = None
        db.resume()
        db.delete_range(b'00003', b'00007')
        assert len(list(db)) == 996


def test_interrupts_pass_through(path):
    order = Failing()
    with open_with(path, order) as db:
        for n in range(100):
            db.put(b'%d' % n, b'')
        order.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            list(db)
        order.error = None
        assert len(list(db)) == 100


def test_a_comparator_cannot_use_minikv(path):
    seen = []

    def order(a, b):
        for call in (lambda: db.get(b'a'), lambda: next(it), lambda: db.close(),
                     lambda: db.put(b'a', b''), lambda: it.close(), lambda: list(db)):
            try:
                call()
            except RuntimeError as error:
                seen.append(str(error))
        return (a > b) - (a < b)

    db = open_with(path, order)
    it = db.iterator()
    for n in range(10):
        db.put(b'%d' % n, b'')
    it = db.iterator(start=b'3')
    assert next(it) == (b'3', b'')
    assert set(seen) == {'A comparator cannot use minikv'}
    db.close()


def test_garbage_is_collected_inside_a_comparator(path):
    def order(a, b):
        gc.collect()
        return (a > b) - (a < b)

    class Node:
        pass

    with open_with(path, order) as db:
        for n in range(20):
            node = Node()
            node.it, node.self = db.iterator(), node
            node.db = minikv.DB(path + str(n), create_if_missing=True)
            db.put(b'%d' % n, b'')
        del node
        assert len(list(db)) == 20
    # Another thread soon closes the databases that the garbage collector found.
    deadline = time.monotonic() + 30
    for n in range(19):
        while True:
            try:
                minikv.DB(path + str(n)).close()
                break
            except minikv.IOError:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_threads_with_a_slow_comparator(path):
    def order(a, b):
        time.sleep(0)
        return (a > b) - (a < b)

    with open_with(path, order, write_buffer_size=1 << 16) as db:
        def work(name):
            for n in range(300):
                db.put(b'%d-%03d' % (name, n), bytes(300))
                if n % 50 == 0:
                    list(db.iterator(include_value=False))
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        db.compact_range()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert len(list(db)) == 1200


def test_a_failing_comparator_does_not_keep_the_process_from_ending(path):
    program = textwrap.dedent('''
        import sys, minikv
        bad = []
        def order(a, b):
            if bad:
                raise ValueError('no order')
            return (a > b) - (a < b)
        db = minikv.DB(sys.argv[1], create_if_missing=True, comparator=order,
            comparator_name=b'o', write_buffer_size=1 << 16)
        for n in range(300):
            db.put(b'%d' % n, bytes(100))
        bad.append(1)
        try:
            for n in range(100000):
                db.put(b'%d' % n, bytes(100))
        except minikv.Error as error:
            print(error)
    ''')
    done = subprocess.run([sys.executable, '-c', program, path], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert 'no order' in done.stdout
    assert 'ValueError: no order' in done.stderr


def test_a_database_is_collected_by_its_own_background_thread(path):
    program = textwrap.dedent('''
        import gc, sys, threading, time, minikv
        gc.disable()
        abandoned, collected = threading.Event(), []
        def order(a, b):
            if threading.current_thread() is not threading.main_thread() and not collected:
                abandoned.wait()
                collected.append(gc.collect())
            return (a > b) - (a < b)
        def new():
            return minikv.DB(sys.argv[1], create_if_missing=True, comparator=order,
                comparator_name=b'o', write_buffer_size=1 << 16)
        class Node: pass
        node = Node()
        node.node, node.db = node, new()
        for n in range(800):
            node.db.put(b'%d' % n, bytes(100))
        del node
        abandoned.set()
        deadline = time.monotonic() + 20
        while True:
            try:
                db = new()
                break
            except minikv.IOError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert collected
        assert len(list(db)) == 800
    ''')
    done = subprocess.run([sys.executable, '-c', program, path], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
