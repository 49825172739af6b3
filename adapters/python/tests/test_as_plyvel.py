"""The package in ../plyvel, which brings minikv under the name plyvel."""

import os
import pathlib
import subprocess
import sys
import textwrap

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'plyvel'


def run(program):
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        env={**os.environ, 'PYTHONPATH': str(FOLDER), 'PYTHONDONTWRITEBYTECODE': '1'},
        capture_output=True, text=True, timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_modules_of_plyvel_are_there():
    run('''
        import minikv, plyvel
        from plyvel import DB, CorruptionError, Error, IteratorInvalidError
        from plyvel import __leveldb_version__, destroy_db, repair_db
        from plyvel._plyvel import DB as same, IOError, Iterator, PrefixedDB, RawIterator
        from plyvel._plyvel import Snapshot, WriteBatch, __leveldb_version__ as format
        assert plyvel._plyvel.Error is Error is minikv.Error
        assert DB is same is minikv.DB
        assert PrefixedDB is plyvel.PrefixedDB is minikv.PrefixedDB
        assert IOError is minikv.IOError
        assert format == __leveldb_version__ == minikv.__leveldb_version__
    ''')


def test_the_version_is_the_one_that_pip_knows():
    version = run('''
        import plyvel
        from plyvel._version import __version__
        assert plyvel.__version__ == __version__
        print(plyvel.__version__, end='')
    ''')
    assert version == '1.5.1+minikv'
    assert f'\nversion = "{version}"\n' in (FOLDER / 'pyproject.toml').read_text()
