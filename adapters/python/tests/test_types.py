"""The types that type checkers see."""

import os
import re
import subprocess
import sys
import typing

import pytest

import minikv
from minikv import reports

HERE = os.path.dirname(os.path.abspath(__file__))


def errors_of(program, tmp_path):
    """Return the numbers of the lines in which mypy finds errors, and its output."""
    pytest.importorskip('mypy')
    done = subprocess.run(
        [sys.executable, '-m', 'mypy', '--strict', '--cache-dir', str(tmp_path / 'cache'),
         os.path.join('types', program)],
        cwd=HERE, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {int(line) for line in re.findall(r':(\d+): error:', done.stdout)}, done.stdout


def test_a_right_program_has_no_errors(tmp_path):
    errors, output = errors_of('right.py', tmp_path)
    assert not errors, output
    assert 'Success' in output


def test_each_wrong_line_is_an_error(tmp_path):
    with open(os.path.join(HERE, 'types', 'wrong.py')) as file:
        wrong = {n for n, line in enumerate(file, 1) if line.endswith('# wrong\n')}
    errors, output = errors_of('wrong.py', tmp_path)
    assert wrong and errors == wrong, output


def has_type(value, kind):
    """Return whether a part of a report has the type that is declared for it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return any(has_type(value, each) for each in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(has_type(each, arguments[0]) for each in value)
    if typing.is_typeddict(kind) if hasattr(typing, 'is_typeddict') else hasattr(kind, '__total__'):
        hints = typing.get_type_hints(kind)
        return isinstance(value, dict) and set(hints) == set(value) and all(
            has_type(value[name], hint) for name, hint in hints.items())
    return type(value) is kind


@pytest.mark.parametrize('layout', ['block', 'table', 'both'])
def test_reports_have_the_types_that_are_declared(path, tmp_path, layout):
    steps = set()
    with minikv.DB(path, create_if_missing=True, bloom_filter_bits=10, filter_layout=layout) as db:
        for n in range(3000):
            db.put(b'\xff%04d' % n, b'x' * 50)
        db.compact_range()
        db.put(b'new', b'1')
        db.delete(b'old')
        for key in (b'new', b'old', b'\xff0100', b'\xff0100x', b'\xff9999', b'a'):
            for place in (db, db.snapshot()):
                report = place.explain(key)
                assert has_type(report, reports.Explanation), report
                steps.update(step['step'] for step in report['steps'])
        made = db.backup(tmp_path / 'backups')
        assert has_type(made, reports.Backup) and not has_type(dict(made, more=1), reports.Backup)
    for top, _, names in os.walk(tmp_path / 'backups'):
        for name in names:
            if name.endswith('.ldb'):
                os.remove(os.path.join(top, name))
    faults = minikv.verify_backups(tmp_path / 'backups')
    assert faults and has_type(faults, typing.List[reports.Fault]), faults
    asked = 'block_filter' if layout == 'block' else 'table_filter'
    assert steps - {'skipped'} == {'memtable', 'table', asked, 'index', 'block', 'entry'}


def test_annotations_may_name_the_items_of_iterators(db):
    assert minikv.Iterator[bytes].__origin__ is minikv.Iterator
