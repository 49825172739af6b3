"""Features that minikv has and plyvel lacks."""

import os

import pytest

import minikv


def fill(db, count=1000):
    for n in range(count):
        db.put(b'key-%04d' % n, b'value-%d' % n)


def test_read_only_beside_a_writer(db, path):
    db.put(b'a', b'1')
    with minikv.open_read_only(path) as reader:
        assert reader.read_only and not db.read_only
        assert reader.get(b'a') == b'1'
        db.put(b'b', b'2')
        assert reader.get(b'b') is None
        snapshot = reader.snapshot()
        assert reader.refresh()
        assert not reader.refresh()
        assert list(reader) == [(b'a', b'1'), (b'b', b'2')]
        assert list(snapshot) == [(b'a', b'1')]
        assert list(reader.prefixed_db(b'b')) == [(b'', b'2')]
        assert reader.get_property(b'leveldb.stats') is not None
        assert reader.approximate_size(b'a', b'z') == db.approximate_size(b'a', b'z') > 0
        for write in (
            lambda: reader.put(b'c', b'3'),
            lambda: reader.delete(b'a'),
            lambda: reader.delete_range(None, None),
            lambda: reader.compact_range(),
            lambda: reader.checkpoint(path + '-copy'),
            lambda: reader.write_batch().write(),
        ):
            with pytest.raises(minikv.Error, match='open for reading only'):
                write()
    assert reader.closed


def test_refresh_of_a_writer(db):
    assert db.refresh() is False


def test_checkpoint(db, path):
    fill(db)
    db.checkpoint(path + '-copy')
    db.delete_range(None, None)
    with minikv.DB(path + '-copy') as copy:
        assert copy.get(b'key-0007') == b'value-7'
        assert len(list(copy)) == 1000
    assert list(db) == []
    with pytest.raises(minikv.Error):
        db.checkpoint(path + '-copy')


def test_verify(db, path):
    fill(db)
    db.compact_range()
    report = minikv.verify(path)
    assert report['fault_count'] == 0
    assert report['entries'] >= 1000


def damage(path):
    db = minikv.DB(path, create_if_missing=True)
    fill(db)
    db.compact_range()
    db.close()
    table = max(
        (os.path.join(path, name) for name in os.listdir(path) if name.endswith(('.ldb', '.sst'))),
        key=os.path.getsize,
    )
    with open(table, 'r+b') as file:
        file.seek(2000)
        file.write(b'\xaa' * 100)


def test_verify_and_repair_of_damage(path):
    damage(path)
    report = minikv.verify(path)
    assert report['fault_count'] > 0
    assert report['faults'][0]['offset'] is not None
    with minikv.DB(path) as db:
        with pytest.raises(minikv.CorruptionError, match='Corruption: .*checksum'):
            list(db)
    before = sorted(os.listdir(path))
    report = minikv.repair_db(path, dry_run=True)
    assert report['dry_run'] and not report['healthy']
    assert sorted(os.listdir(path)) == before
    minikv.repair_db(path)
    assert minikv.verify(path)['fault_count'] == 0
    with minikv.DB(path) as db:
        assert 0 < len(list(db)) < 1000


@pytest.mark.parametrize('call', [minikv.repair_db, minikv.verify])
def test_repair_and_verify_of_a_place_without_a_database_are_io_errors(tmp_path, call):
    missing, empty = tmp_path / 'missing', tmp_path / 'empty'
    with pytest.raises(minikv.IOError, match='NotFound: .*missing: cannot (repair|verify)'):
        call(missing)
    assert not missing.exists()
    empty.mkdir()
    with pytest.raises(minikv.IOError, match='IO error: .*empty.*there is no database in it'):
        call(empty)
    assert os.listdir(empty) == []


def test_a_scan_returns_what_lies_before_the_damage(path):
    damage(path)
    with minikv.DB(path) as db:
        for reverse in (False, True):
            found = []
            it = db.iterator(reverse=reverse, include_value=False)
            with pytest.raises(minikv.CorruptionError):
                for key in it:
                    found.append(key)
            keys = sorted((b'key-%04d' % n for n in range(1000)), reverse=reverse)
            assert 0 < len(found) < 1000
            assert found == keys[:len(found)]
            # A second read meets the same damage.
            with pytest.raises(minikv.CorruptionError):
                next(it)
            # Going back still works.
            assert it.prev() == found[-1]
            it.seek_to_start()


def test_explain(db):
    db.put(b'a', b'1')
    report = db.explain(b'a')
    assert report['key'] == 'a'
    assert report['found'] and report['steps'][0]['step'] == 'memtable'
    assert not db.explain(b'b')['found']
    snapshot = db.snapshot()
    db.put(b'a', b'2')
    assert snapshot.explain(b'a')['sequence'] < db.explain(b'a')['sequence']
    assert db.explain(b'\xff')['key'] == {'base64': '/w=='}


def test_stats(db):
    fill(db)
    stats = db.stats()
    gets = stats['gets']
    db.get(b'key-0001')
    assert db.stats()['gets'] == gets + 1
    assert len(stats['levels']) == 7


def test_filter_advice(db):
    fill(db)
    db.compact_range()
    for n in range(1000):
        db.get(b'absent-%d' % n)
    assert db.filter_advice()['gets'] >= 1000


def test_delete_range(db):
    fill(db, 100)
    db.delete_range(b'key-0010', b'key-0020')
    keys = list(db.iterator(include_value=False))
    assert keys == [b'key-%04d' % n for n in range(100) if not 10 <= n < 20]
    db.delete_range(b'key-0050', None, sync=True)
    assert db.get(b'key-0049') and not db.get(b'key-0050')
    db.delete_range(None, b'key-0049')
    assert list(db.iterator(include_value=False)) == [b'key-0049']


@pytest.mark.parametrize('layout', ['block', 'table', 'both'])
def test_filter_layouts(path, layout):
    options = dict(bloom_filter_bits=10, filter_layout=layout)
    with minikv.DB(path, create_if_missing=True, **options) as db:
        fill(db)
        db.compact_range()
        for n in range(1000):
            assert db.get(b'key-%04d-absent' % n) is None
        reads = db.stats()['reads']
        blocks, tables = reads['filter_negatives'], reads['table_filter_negatives']
        assert (tables > 900, blocks > 900) == (layout != 'block', layout == 'block')


def test_sync(db):
    db.put(b'a', b'1')
    db.sync()
    assert db.stats()['wal_syncs'] >= 1


def test_path_objects(tmp_path):
    with minikv.DB(tmp_path / 'db', create_if_missing=True) as db:
        assert db.name == tmp_path / 'db'
        db.checkpoint(tmp_path / 'copy')
    assert minikv.verify(os.fsencode(tmp_path / 'copy'))['fault_count'] == 0
    minikv.destroy_db(tmp_path / 'copy')
    assert not (tmp_path / 'copy').exists()
