"""Uses the installed package as a program does: use.py EXPECTED THEIRS, with a copy of a database
of LevelDB, and its entries in hex. Prints a line at the end.
"""

import os
import sys
import sysconfig

import minikv as plyvel

expected, theirs = sys.argv[1:]
own = os.path.join(os.path.dirname(theirs), "own")

with plyvel.DB(own, create_if_missing=True) as db:
    db.put(b"apple", b"red")
    with db.write_batch(sync=True) as batch:
        batch.put(b"banana", b"yellow")
        batch.put(b"cherry", b"dark red")
    db.delete(b"apple")

with plyvel.DB(own) as db:
    assert db.get(b"apple") is None
    assert db.get(b"banana") == b"yellow"
    assert list(db.iterator(reverse=True)) == [(b"cherry", b"dark red"), (b"banana", b"yellow")]
    try:
        plyvel.DB(own)
    except plyvel.IOError:
        pass
    else:
        raise AssertionError("a second open did not fail")

with plyvel.DB(theirs) as db:
    lines = [f"{key.hex()}\t{value.hex()}\n" for key, value in db]
with open(expected, newline="") as file:
    assert "".join(lines) == file.read()
version = sys.version.split()[0]
print(f"used: Python {version}, {sysconfig.get_platform()}, {len(lines)} entries of LevelDB")
