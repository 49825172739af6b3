"""Databases of plyvel, which uses LevelDB, are read by minikv, and vice versa."""

import os
import random

import pytest

import minikv

plyvel = pytest.importorskip('plyvel')


def lower(a, b):
    a, b = a.lower(), b.lower()
    return (a > b) - (a < b)


OPTIONS = [
    dict(),
    dict(compression=None),
    dict(bloom_filter_bits=10),
    dict(block_size=1024, block_restart_interval=1, write_buffer_size=1 << 16),
    dict(write_buffer_size=1 << 16, max_file_size=1 << 20, paranoid_checks=True),
    dict(comparator=lower, comparator_name=b'test.lower'),
]


def key_of(draw):
    return b'%06x' % draw.randrange(5000)


def change(draw, db, model, may_compact):
    """Makes random changes to a database and to a dictionary."""
    for _ in range(draw.choice([10, 2000])):
        key, value = key_of(draw), bytes(draw.choices(b'abc', k=draw.choice([0, 10, 300])))
        what = draw.randrange(10)
        if what < 6:
            db.put(key, value)
            model[key] = value
        elif what < 8:
            db.delete(key)
            model.pop(key, None)
        else:
            with db.write_batch(sync=draw.random() < 0.02) as batch:
                for _ in range(draw.randrange(20)):
                    key = key_of(draw)
                    batch.put(key, value)
                    model[key] = value
                batch.delete(key)
                model.pop(key, None)
    if draw.random() < 0.3 and may_compact:
        db.compact_range(start=b'000000', stop=b'001000')


def check(draw, db, model):
    expected = sorted(model.items())
    assert list(db.iterator()) == expected
    assert list(db.iterator(reverse=True)) == expected[::-1]
    for _ in range(300):
        key = key_of(draw)
        assert db.get(key) == model.get(key)
    start, stop = sorted([key_of(draw), key_of(draw)])
    assert list(db.iterator(start=start, stop=stop)) == \
        [entry for entry in expected if start <= entry[0] < stop]


@pytest.mark.parametrize('options', OPTIONS, ids=lambda options: '-'.join(options) or 'plain')
@pytest.mark.parametrize('first', [plyvel, minikv], ids=['leveldb-first', 'minikv-first'])
def test_turns(path, options, first):
    draw, model = random.Random(str(options)), {}
    store = first
    # plyvel with a comparator may wait forever for a compaction, which needs the GIL. So
    # databases with a comparator have at most one table, which needs no compaction.
    may_compact = 'comparator' not in options
    for turn in range(6 if may_compact else 2):
        db = store.DB(path, create_if_missing=turn == 0, **options)
        check(draw, db, model)
        change(draw, db, model, may_compact)
        check(draw, db, model)
        db.close()
        store = minikv if store is plyvel else plyvel
    names = {'comparator', 'comparator_name'} & options.keys()
    assert minikv.verify(path, **{name: options[name] for name in names})['fault_count'] == 0


def test_each_refuses_the_others_open_database(path):
    ours = minikv.DB(path, create_if_missing=True)
    with pytest.raises(minikv.IOError, match='lock'):
        minikv.DB(path)
    ours.close()
    theirs = plyvel.DB(path)
    theirs.close()


def test_plyvel_reads_a_checkpoint(path):
    with minikv.DB(path, create_if_missing=True) as db:
        for n in range(1000):
            db.put(b'%d' % n, bytes(100))
        db.checkpoint(path + '-copy')
    theirs = plyvel.DB(path + '-copy')
    assert len(list(theirs)) == 1000
    theirs.close()


def test_read_only_beside_leveldb(path):
    theirs = plyvel.DB(path, create_if_missing=True)
    theirs.put(b'a', b'1')
    with minikv.open_read_only(path) as db:
        assert db.get(b'a') == b'1'
        theirs.put(b'b', b'2')
        db.refresh()
        assert list(db) == list(theirs)
    theirs.close()


def test_repair_of_a_database_of_leveldb(path):
    theirs = plyvel.DB(path, create_if_missing=True)
    for n in range(1000):
        theirs.put(b'%04d' % n, bytes(100))
    theirs.close()
    os.remove(path + '/CURRENT')
    minikv.repair_db(path)
    theirs = plyvel.DB(path)
    assert len(list(theirs)) == 1000
    theirs.close()
