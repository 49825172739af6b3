"""Wrong usage, and what help() shows."""

import decimal
import inspect
import sys

import pytest

import minikv


def test_wrong_types(db, path):
    for call in (
        lambda: db.get('key'), lambda: db.get(None), lambda: db.get(1), lambda: db.get(),
        lambda: db.get(b'a', None, True),
        lambda: db.get(b'a', verify_checksums=1),
        lambda: db.put(b'a'), lambda: db.put('a', b''), lambda: db.put(b'a', 'text'),
        lambda: db.put(b'a', 12), lambda: db.put(b'a', None), lambda: db.put(b'a', b'', True),
        lambda: db.put(bytearray(b'a'), b''),
        lambda: db.delete('a'), lambda: db.delete(None), lambda: db.delete(b'a', True),
        lambda: db.iterator(start='a'), lambda: db.iterator(prefix='a'),
        lambda: db.iterator(b'a'), lambda: db.iterator(nothing=1),
        lambda: db.iterator(prefix=b'a', start=b'a'),
        lambda: db.iterator(prefix=b'', stop=b''),
        lambda: db.iterator().seek('a'), lambda: db.iterator().seek(),
        lambda: db.raw_iterator().seek('a'),
        lambda: db.prefixed_db('a'), lambda: db.prefixed_db(None),
        lambda: db.approximate_size('a', b'b'), lambda: db.approximate_sizes(None),
        lambda: db.approximate_sizes((b'a',)), lambda: db.approximate_sizes((b'a', 'b')),
        lambda: db.approximate_sizes([b'a', 'b']), lambda: db.approximate_sizes('ab'),
        lambda: db.approximate_sizes(b'ab'), lambda: db.approximate_sizes([b'a', b'b', b'c']),
        lambda: db.compact_range(start='a'), lambda: db.compact_range(b'a', b'b'),
        lambda: db.write_batch(True), lambda: db.write_batch().put('a', b''),
        lambda: db.write_batch().append(None), lambda: db.write_batch().append([]),
        lambda: db.get_property('leveldb.stats'), lambda: db.checkpoint(None),
        lambda: minikv.DB(), lambda: minikv.DB(12), lambda: minikv.DB(None),
        lambda: minikv.DB(path + '2', True),
        lambda: minikv.DB(path + '2', nothing=1),
        lambda: minikv.DB(path + '2', create_if_missing='yes'),
        lambda: minikv.DB(path + '2', block_size='4k'),
        lambda: minikv.DB(path + '2', compression=5),
        lambda: minikv.DB(path + '2', bloom_filter_bits='10'),
        lambda: minikv.DB(path + '2', filter_layout=3),
        lambda: minikv.repair_db(3), lambda: minikv.destroy_db(3), lambda: minikv.verify(3),
        lambda: minikv.Iterator(), lambda: minikv.RawIterator(), lambda: minikv.WriteBatch(),
        lambda: minikv.Snapshot(), lambda: minikv.PrefixedDB(db=3, prefix=b''),
    ):
        with pytest.raises(TypeError):
            call()
    assert list(db) == []


def test_wrong_values(path):
    for options in (
        dict(compression='zip'), dict(compression=b'\xff'), dict(filter_layout='round'),
        dict(comparator_name=b'a'), dict(comparator=max),
        dict(comparator=max, comparator_name=b'\xff'),
        dict(write_buffer_size=-1), dict(lru_cache_size=1 << 70),
    ):
        with pytest.raises((ValueError, OverflowError)):
            minikv.DB(path, create_if_missing=True, **options)


def test_sizes_out_of_leveldbs_limits_are_moved_into_them(path):
    sizes = ('write_buffer_size', 'max_open_files', 'block_size', 'block_restart_interval',
             'max_file_size', 'lru_cache_size', 'bloom_filter_bits')
    for number in (0, 1, 1 << 40):
        options = {name: number for name in sizes}
        with minikv.DB(path, create_if_missing=True, **options) as db:
            db.put(b'a', b'1')
            assert db.get(b'a') == b'1'


@pytest.mark.parametrize('options', [
    dict(lru_cache_size=512 * 1e6), dict(write_buffer_size=64e6), dict(block_size=4096.0),
    dict(block_size=decimal.Decimal(4096)), dict(block_restart_interval=16.5),
    dict(block_restart_interval=-1), dict(max_file_size=4e6), dict(max_open_files=-1),
    dict(max_open_files=1e3), dict(max_open_files=True), dict(bloom_filter_bits=10.0),
    dict(bloom_filter_bits=-1),
], ids=str)
def test_numbers_that_plyvel_takes_are_taken(path, options):
    plyvel = pytest.importorskip('plyvel')
    for store in (plyvel, minikv):
        store.DB(path + store.__name__, create_if_missing=True, **options).close()


@pytest.mark.parametrize('options, error', [
    (dict(write_buffer_size=-1), OverflowError), (dict(lru_cache_size=-1.5), OverflowError),
    (dict(max_open_files=1 << 70), OverflowError), (dict(block_size=1e30), OverflowError),
    (dict(block_size=float('inf')), OverflowError), (dict(block_size=float('nan')), ValueError),
    (dict(block_size='4096'), TypeError), (dict(max_open_files=b'74'), TypeError),
    (dict(bloom_filter_bits='10'), TypeError),
], ids=str)
def test_numbers_that_plyvel_refuses_are_refused(path, options, error):
    plyvel = pytest.importorskip('plyvel')
    for store in (plyvel, minikv):
        with pytest.raises(error):
            store.DB(path + store.__name__, create_if_missing=True, **options)
    with pytest.raises(error, match=f"argument '{next(iter(options))}'"):
        minikv.DB(path, create_if_missing=True, **options)


def test_ranges_may_be_lists(db):
    db.put(b'a', bytes(1000))
    size = db.approximate_size(b'a', b'b')
    assert size > 0
    assert db.approximate_sizes([b'a', b'b'], (b'a', b'b')) == [size, size]


def test_what_may_be_in_the_directory(path):
    with pytest.raises(minikv.Error, match='create_if_missing is false'):
        minikv.DB(path)
    with pytest.raises(minikv.IOError, match='NotFound'):
        minikv.DB(path + '/deep/er', create_if_missing=True)
    minikv.DB(path, create_if_missing=True).close()
    with pytest.raises(minikv.Error, match='error_if_exists is true'):
        minikv.DB(path, error_if_exists=True)
    with pytest.raises(minikv.Error, match='comparator'):
        minikv.DB(path, comparator=max, comparator_name=b'other')
    with pytest.raises(minikv.IOError):
        minikv.DB(path + '\0')


def test_ranges_that_end_before_they_start(db):
    for n in range(10):
        db.put(b'%d' % n, b'')
    db.compact_range(start=b'7', stop=b'3')
    assert db.approximate_size(b'7', b'3') == 0
    assert list(db.iterator(start=b'7', stop=b'3')) == []
    assert list(db.iterator(start=b'7', stop=b'3', reverse=True)) == []
    it = db.iterator(start=b'7', stop=b'3')
    it.seek(b'5')
    with pytest.raises(StopIteration):
        next(it)
    with pytest.raises(StopIteration):
        it.prev()
    try:
        db.delete_range(b'7', b'3')
    except minikv.Error:
        pass
    assert len(list(db)) == 10


def test_exceptions_are_plyvels():
    assert issubclass(minikv.IOError, minikv.Error)
    assert issubclass(minikv.IOError, OSError)
    assert issubclass(minikv.CorruptionError, minikv.Error)
    assert issubclass(minikv.IteratorInvalidError, minikv.Error)
    assert minikv.Error.__module__ == 'minikv'


def test_values_with_a_buffer(db):
    import array
    for value in (bytearray(b'abc'), memoryview(b'abc'), memoryview(b'xabcx')[1:4],
                  array.array('B', b'abc')):
        db.put(b'k', value)
        assert db.get(b'k') == b'abc'
        with db.write_batch() as batch:
            batch.put(b'l', value)
        assert db.get(b'l') == b'abc'


def test_a_batch_appends_itself(db):
    batch = db.write_batch()
    batch.put(b'a', b'1')
    batch.append(batch)
    batch.write()
    batch.write()
    assert list(db) == [(b'a', b'1')]


def test_a_prefixed_batch(db):
    with db.prefixed_db(b'p').prefixed_db(b'q').write_batch(transaction=True, sync=True) as batch:
        batch.put(b'a', b'1')
        batch.put(b'b', b'1')
        batch.delete(b'b')
        other = db.write_batch()
        other.put(b'whole', b'2')
        batch.append(other)
    assert list(db) == [(b'pqa', b'1'), (b'whole', b'2')]


def test_names(db, path):
    assert repr(db).startswith("<minikv.DB with name '%s' at 0x" % path)
    assert repr(db.prefixed_db(b'x')).startswith("<minikv.PrefixedDB with prefix b'x' at 0x")
    for attribute in ('name', 'closed', 'read_only'):
        with pytest.raises(AttributeError):
            setattr(db, attribute, 1)


def test_everything_has_a_docstring_and_a_signature():
    for name in minikv.__all__:
        thing = getattr(minikv, name)
        if name.startswith('__'):
            continue
        assert thing.__doc__, name
        if not inspect.isclass(thing):
            assert inspect.signature(thing)
            continue
        for method in vars(thing):
            if not method.startswith('_'):
                assert getattr(thing, method).__doc__, '%s.%s' % (name, method)
    if sys.version_info >= (3, 10):
        assert 'write_buffer_size' in inspect.signature(minikv.DB).parameters
