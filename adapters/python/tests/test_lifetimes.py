"""Objects that outlive their database, and the end of the process."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import pytest

import minikv


def run(program, *args):
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program), *args],
        capture_output=True, text=True, timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_close_ends_everything(path):
    db = minikv.DB(path, create_if_missing=True)
    for n in range(100):
        db.put(b'%d' % n, b'')
    below = db.prefixed_db(b'1')
    batch, snapshot = db.write_batch(), db.snapshot()
    its = [db.iterator(), snapshot.iterator(), below.iterator(), iter(below.snapshot())]
    raw = db.raw_iterator()
    raw.seek_to_first()
    for it in its:
        next(it)
    db.close()
    db.close()
    assert db.closed
    calls = [
        lambda: db.get(b'1'), lambda: db.put(b'1', b''), lambda: db.delete(b'1'),
        lambda: db.write_batch(), lambda: db.iterator(), lambda: iter(db),
        lambda: db.raw_iterator(), lambda: db.snapshot(), lambda: db.get_property(b'x'),
        lambda: db.compact_range(), lambda: db.approximate_size(b'a', b'b'),
        lambda: db.approximate_sizes(), lambda: db.checkpoint(path + '2'),
        lambda: db.explain(b'1'), lambda: db.stats(), lambda: db.filter_advice(),
        lambda: db.refresh(), lambda: db.resume(), lambda: db.sync(),
        lambda: db.delete_range(None, None),
        lambda: below.get(b'1'), lambda: below.put(b'1', b''), lambda: below.delete(b'1'),
        lambda: below.iterator(), lambda: below.snapshot(), lambda: below.write_batch(),
        lambda: batch.put(b'1', b''), lambda: batch.delete(b'1'), lambda: batch.write(),
        lambda: batch.clear(), lambda: batch.append(batch), lambda: batch.approximate_size(),
        lambda: batch.__enter__(),
        lambda: snapshot.get(b'1'), lambda: snapshot.iterator(), lambda: iter(snapshot),
        lambda: snapshot.raw_iterator(), lambda: snapshot.explain(b'1'),
        lambda: raw.key(), lambda: raw.valid(), lambda: raw.next(), lambda: raw.seek(b'1'),
    ]
    # An entry that an iterator has read ahead is no longer returned, either.
    calls += [lambda it=it: next(it) for it in its] + [lambda it=it: it.prev() for it in its]
    calls += [lambda it=it: it.seek(b'1') for it in its]
    for call in calls:
        with pytest.raises(RuntimeError, match='closed'):
            call()
    for closing in [snapshot, raw, *its]:
        closing.close()
    assert 'closed' in repr(db)


def test_the_directory_is_free_after_close(path):
    db = minikv.DB(path, create_if_missing=True)
    db.put(b'a', b'1')
    held = [db.iterator(), db.snapshot(), db.raw_iterator(), db.snapshot().iterator()]
    with pytest.raises(minikv.IOError, match='already held by this process'):
        minikv.DB(path)
    db.close()
    again = minikv.DB(path)
    assert again.get(b'a') == b'1'
    again.close()
    del held


def test_objects_keep_the_database_open(path):
    it = minikv.DB(path, create_if_missing=True).iterator()
    snapshot = minikv.DB(path + '2', create_if_missing=True).snapshot()
    batch = minikv.DB(path + '3', create_if_missing=True).write_batch()
    below = minikv.DB(path + '4', create_if_missing=True).prefixed_db(b'x')
    gc.collect()
    assert list(it) == []
    assert snapshot.get(b'a') is None
    batch.put(b'a', b'1')
    batch.write()
    below.put(b'a', b'1')
    del it, snapshot, batch, below
    gc.collect()
    for n in ('', '2', '3', '4'):
        minikv.DB(path + n).close()


def test_dropped_iterators_and_snapshots_are_forgotten(db):
    for _ in range(1000):
        db.snapshot().iterator()
    assert db.stats()['snapshots'] == 0
    it = db.iterator()
    gone = weakref.ref(it)
    del it
    assert gone() is None


def test_garbage_in_a_circle_with_its_comparator(path):
    class Order:
        def __call__(self, a, b):
            return (a > b) - (a < b)

    order = Order()
    order.db = minikv.DB(path, create_if_missing=True, comparator=order, comparator_name=b'circle')
    order.db.put(b'a', b'1')
    order.db.close()
    gone = weakref.ref(order.db)
    order.db = None
    assert gone() is None


def test_the_interpreter_ends_with_everything_open(path):
    run('''
        import sys, minikv
        order = lambda a, b: (a > b) - (a < b)
        db = minikv.DB(sys.argv[1], create_if_missing=True, comparator=order,
            comparator_name=b'order', write_buffer_size=1 << 16)
        for n in range(5000):
            db.put(b'%d' % (n * 7919 % 5000), b'x' * 50)
        it, snapshot = db.iterator(), db.snapshot()
        next(it)
        class Late:
            def __del__(self):
                try:
                    db.get(b'1')
                except RuntimeError:
                    pass
        late = Late()
    ''', path)
    report = minikv.verify(
        path, comparator=lambda a, b: (a > b) - (a < b), comparator_name=b'order')
    assert report['fault_count'] == 0


def test_the_interpreter_ends_while_threads_write(path):
    run('''
        import sys, threading, time, minikv
        order = lambda a, b: (a > b) - (a < b)
        db = minikv.DB(sys.argv[1], create_if_missing=True, comparator=order,
            comparator_name=b'order', write_buffer_size=1 << 16)
        def work():
            n = 0
            while True:
                db.put(b'%d' % n, b'x' * 20)
                n += 1
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(1)
    ''', path)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='no fork')
def test_a_forked_process_cannot_use_the_database(path):
    done = run('''
        import gc, os, sys, minikv
        db = minikv.DB(sys.argv[1], create_if_missing=True)
        db.put(b'a', b'1')
        it, snapshot, batch = db.iterator(), db.snapshot(), db.write_batch()
        space, transaction, changes = db.keyspace(b's'), db.transaction(), db.changes(0)
        of_transaction, of_space = transaction.iterator(), space.write_batch()
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: db.get(b'a'), lambda: db.put(b'a', b'2'), lambda: next(it),
                    lambda: snapshot.get(b'a'), lambda: batch.write(), lambda: db.iterator(),
                    lambda: space.get(b'a'), lambda: transaction.get(b'a'), lambda: next(changes),
                    lambda: transaction.commit(), lambda: next(of_transaction),
                    lambda: of_space.put(b'a', b''), lambda: db.backup(sys.argv[1] + '3')):
                try:
                    call()
                except RuntimeError as error:
                    assert 'forked' in str(error)
                    refused += 1
            other = minikv.DB(sys.argv[1] + '2', create_if_missing=True)
            other.put(b'a', b'3')
            other.close()
            it.close()
            transaction.close()
            del it, snapshot, batch, space, transaction, changes, of_transaction, of_space
            db.close()
            del db
            gc.collect()
            sys.exit(0 if refused == 13 else 1)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
        db.put(b'b', b'2')
        assert list(db) == [(b'a', b'1'), (b'b', b'2')]
        print('fine')
    ''', path)
    assert done.stdout == 'fine\n'


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='no fork')
def test_a_forked_process_gets_nothing_that_was_read_before(path):
    done = run('''
        import os, sys, minikv
        db = minikv.DB(sys.argv[1], create_if_missing=True)
        for n in range(100):
            db.put(b'%02d' % n, b'')
        it, raw = db.iterator(include_value=False), db.raw_iterator()
        for n in range(20):
            assert next(it) == b'%02d' % n
        raw.seek_to_first()
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: next(it), it.prev, raw.key, raw.value, raw.item, raw.valid):
                try:
                    call()
                except RuntimeError as error:
                    assert 'forked' in str(error)
                    refused += 1
            os._exit(0 if refused == 6 else 1)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
        assert next(it) == b'20'
        assert raw.key() == b'00'
        print('fine')
    ''', path)
    assert done.stdout == 'fine\n'


# The end of a process after which nothing is closed.
DEATH = 'os._exit(0)'


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='no fork')
@pytest.mark.parametrize('end', ['db.close()', DEATH])
def test_a_forked_process_opens_the_database_after_its_parent(path, end):
    done = run('''
        import os, signal, sys, minikv

        def fork():
            pid = os.fork()
            if pid == 0:
                # A process that waits for nothing ends, too.
                signal.alarm(20)
            return pid

        def answer(call):
            try:
                return call()
            except Exception as error:
                return str(error)

        def gate():
            reader, writer = os.pipe()
            return lambda: os.read(reader, 1000), lambda text: os.write(writer, text)

        path, end = sys.argv[1:]
        (hear, say), (parent_waits, parent_goes), (waits, goes) = gate(), gate(), gate()
        parent = fork()
        if parent == 0:
            parent = os.getpid()
            db = minikv.DB(path, create_if_missing=True)
            db.put(b'a', b'1')
            child = fork()
            if child == 0:
                refused = answer(lambda: minikv.DB(path))
                assert f'already held by process {parent}' in refused, refused
                say(b'refused')
                waits()
                own = answer(lambda: minikv.DB(path))
                assert isinstance(own, minikv.DB), own
                again = answer(lambda: minikv.DB(path))
                assert 'already held by this process' in again, again
                # The end of what was inherited takes nothing with it.
                db.close()
                del db
                own.put(b'b', b'2')
                say(b'%d' % os.getpid())
                waits()
                own.close()
                minikv.DB(path).close()
                say(b'closed')
                os._exit(0)
            parent_waits()
            exec(end)
            say(b'ended')
            parent_waits()
            os._exit(0)
        assert hear() == b'refused'
        parent_goes(b' ')
        if end == 'db.close()':
            assert hear() == b'ended'
        else:
            os.waitpid(parent, 0)
        goes(b' ')
        child = int(hear())
        refused = answer(lambda: minikv.DB(path))
        assert f'already held by process {child}' in refused, refused
        goes(b' ')
        assert hear() == b'closed'
        parent_goes(b' ')
        with minikv.DB(path) as db:
            assert list(db) == [(b'a', b'1'), (b'b', b'2')]
        print('fine')
    ''', path, end)
    assert done.stdout == 'fine\n'


def test_a_closed_object_leaves_others_alone(path):
    with minikv.DB(path, create_if_missing=True) as db:
        first = db.iterator()
        first.close()
        second = db.snapshot()
        del first
        third = db.iterator()
    for call in (lambda: second.get(b'a'), lambda: next(third)):
        with pytest.raises(RuntimeError, match='closed'):
            call()
    minikv.DB(path).close()


@pytest.mark.parametrize('last', ['db', 'batch', 'below', 'it', 'snapshot'])
def test_a_database_with_a_comparator_ends_while_it_compacts(path, last):
    run('''
        import gc, sys, minikv
        order = lambda a, b: (a > b) - (a < b)
        db = minikv.DB(sys.argv[1], create_if_missing=True, comparator=order,
            comparator_name=b'order', write_buffer_size=1 << 16)
        for n in range(3000):
            db.put(b'%d' % (n * 7919 % 3000), b'x' * 100)
        objects = dict(db=db, batch=db.write_batch(), below=db.prefixed_db(b'1'),
            it=db.iterator(), snapshot=db.snapshot())
        last = objects[sys.argv[2]]
        del db, objects
        gc.collect()
        del last
        minikv.DB(sys.argv[1], comparator=order, comparator_name=b'order').close()
    ''', path, last)


@pytest.mark.skipif(not os.path.exists('/proc/self/statm'), reason='no count of memory')
@pytest.mark.parametrize('what', [
    'db.iterator()', 'db.raw_iterator()', 'db.snapshot()', 'snapshot.iterator()', 'list(db)',
    'db.write_batch().put(b"a", bytearray(100))', 'db.prefixed_db(b"a").get(b"a")',
    'db.put(b"a", memoryview(b"1"))', 'db.get(b"a", b"b")', 'db.explain(b"a")', 'fail(db)',
])
def test_memory_is_given_back(db, what):
    def fail(db):
        with pytest.raises(minikv.Error):
            db.checkpoint(db.name)

    def used():
        gc.collect()
        with open('/proc/self/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    code = compile(what, what, 'eval')
    names = dict(db=db, snapshot=db.snapshot(), fail=fail)
    for n in range(100):
        db.put(b'%d' % n, b'')

    def repeat():
        for _ in range(5000 if 'fail' not in what else 1000):
            eval(code, names)

    repeat()
    before = used()
    repeat()
    # If each call leaked an object of 500 bytes, 5000 calls would take 2.5 MB.
    assert used() - before < 2 << 20
