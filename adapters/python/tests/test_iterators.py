"""Iterators compared with a model, and their differences from plyvel's iterators."""

import bisect
import random

import pytest

import minikv

NONE = object()


class Model:
    """A model of an iterator: a gap between two keys of a sorted list."""

    def __init__(self, keys, reverse):
        self.keys, self.reverse = keys, reverse
        self.gap = len(keys) if reverse else 0

    def step(self, back):
        if back == self.reverse:
            if self.gap == len(self.keys):
                return NONE
            self.gap += 1
            return self.keys[self.gap - 1]
        if self.gap == 0:
            return NONE
        self.gap -= 1
        return self.keys[self.gap]

    def seek(self, target):
        self.gap = bisect.bisect_left(self.keys, target)


def in_range(key, start, stop, include_start, include_stop):
    return (
        (start is None or key > start or (include_start and key == start)) and
        (stop is None or key < stop or (include_stop and key == stop))
    )


def random_key(draw):
    return bytes(draw.choice(b'ab\xff') for _ in range(draw.randint(0, 4)))


def next_or_none(it):
    return next(it, NONE)


def prev_or_none(it):
    try:
        return it.prev()
    except StopIteration:
        return NONE


def walk(draw, it, model, steps):
    for _ in range(steps):
        what = draw.randrange(20)
        if what == 0:
            it.seek_to_start()
            model.gap = 0
        elif what == 1:
            it.seek_to_stop()
            model.gap = len(model.keys)
        elif what < 4:
            target = random_key(draw)
            it.seek(target)
            model.seek(target)
        else:
            # Runs of steps in one direction, so that many entries are read ahead.
            back = draw.random() < 0.5
            for _ in range(draw.choice([1, 1, 2, 30])):
                found = prev_or_none(it) if back else next_or_none(it)
                assert found == model.step(back)


@pytest.mark.parametrize('seed', range(8))
def test_walks_like_a_model(path, seed):
    draw = random.Random(seed)
    with minikv.DB(path, create_if_missing=True, write_buffer_size=1 << 16) as db:
        keys = {random_key(draw) for _ in range(draw.choice([0, 1, 3, 40, 100]))}
        for key in keys:
            db.put(key, b'v' * draw.choice([0, 1, 5000]))
            if draw.random() < 0.2:
                db.compact_range()
        for _ in range(60):
            reverse = draw.random() < 0.5
            start, stop = (draw.choice([None, random_key(draw)]) for _ in range(2))
            ends = dict(include_start=draw.random() < 0.5, include_stop=draw.random() < 0.5)
            expected = sorted(key for key in keys if in_range(key, start, stop, **ends))
            it = db.iterator(reverse=reverse, start=start, stop=stop, include_value=False, **ends)
            walk(draw, it, Model(expected, reverse), 40)


@pytest.mark.parametrize('seed', range(4))
def test_walks_like_a_model_below_a_prefix(db, seed):
    draw = random.Random(seed)
    keys = {random_key(draw) for _ in range(80)}
    for key in keys:
        db.put(key, key)
    for _ in range(40):
        prefix, inner = random_key(draw), draw.choice([None, random_key(draw)])
        below = db.prefixed_db(prefix)
        expected = sorted(key[len(prefix):] for key in keys if key.startswith(prefix))
        expected = [key for key in expected if key.startswith(inner or b'')]
        reverse = draw.random() < 0.5
        it = draw.choice([below, below.snapshot()]).iterator(
            reverse=reverse, prefix=inner, include_value=False)
        walk(draw, it, Model(expected, reverse), 20)


def test_an_iterator_shows_the_moment_of_its_creation(db):
    db.put(b'a', b'1')
    it = db.iterator()
    raw = db.raw_iterator()
    db.put(b'b', b'2')
    db.delete(b'a')
    assert list(it) == [(b'a', b'1')]
    raw.seek_to_last()
    assert raw.item() == (b'a', b'1')


def test_long_values_are_read_one_by_one(db):
    value = bytes(100_000)
    for n in range(20):
        db.put(b'%02d' % n, value)
    assert [len(value) for value in db.iterator(include_key=False)] == [100_000] * 20
    assert len(list(db.iterator(reverse=True))) == 20


def test_a_raw_iterator_in_both_directions(db):
    for n in range(10):
        db.put(b'%d' % n, b'v%d' % n)
    it = db.raw_iterator()
    assert not it.valid()
    for step in (it.key, it.value, it.item, it.next, it.prev):
        with pytest.raises(minikv.IteratorInvalidError):
            step()
    it.seek(b'55')
    assert it.item() == (b'6', b'v6')
    it.prev()
    assert it.key() == b'5'
    it.next()
    assert it.value() == b'v6'
    it.seek(b'a')
    assert not it.valid()


def test_where_plyvel_differs(db, tmp_path):
    plyvel = pytest.importorskip('plyvel')
    theirs = plyvel.DB(str(tmp_path / 'theirs'), create_if_missing=True)
    for n in b'12345':
        db.put(bytes([n]), b'')
        theirs.put(bytes([n]), b'')

    def both(*calls, **kwargs):
        kwargs['include_value'] = False
        return [call(db.iterator(**kwargs)) for call in calls] + \
            [call(theirs.iterator(**kwargs)) for call in calls]

    # Backwards, plyvel leaves out the start of the range if no other entry is in the range.
    assert both(list, start=b'2', stop=b'3', reverse=True) == [[b'2'], []]

    # In plyvel, a seek before the start yields the start even if it is excluded.
    def seek(target):
        return lambda it: (it.seek(target), next_or_none(it))[1]
    assert both(seek(b'0'), start=b'2', include_start=False) == [b'3', b'2']

    # In plyvel, a seek past an included stop yields the stop.
    assert both(seek(b'9'), stop=b'4', include_stop=True) == [NONE, b'4']

    # In plyvel, a step back after a seek leaves the range, and even the prefix of a prefixed_db.
    def back_from(target):
        return lambda it: (it.seek(target), prev_or_none(it))[1]
    assert both(back_from(b'3'), start=b'3') == [NONE, b'2']
    assert both(seek(b'3'), start=b'3', reverse=True) == [NONE, b'2']
    below = [store.prefixed_db(b'3').iterator(include_value=False) for store in (db, theirs)]
    assert [back_from(b'')(it) for it in below] == [NONE, b'']
    theirs.close()
