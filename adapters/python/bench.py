"""Measures minikv and plyvel in turns: python bench.py [--entries N] [--rounds N]

Prints the median time of each operation with each library, in microseconds, and how many times
faster minikv is.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import threading
import time

import minikv
import plyvel

STORES = {'plyvel': plyvel, 'minikv': minikv}
THREADS = 4
BATCH = 100


class Run:
    """A database with random entries, and the operations that are measured on it."""

    def __init__(self, store, directory, entries, seed):
        draw = random.Random(seed)
        self.keys = [b'%016d' % draw.randrange(10**16) for _ in range(entries)]
        self.value = draw.randbytes(50) + bytes(50)
        self.path = directory + '/db'
        self.db = store.DB(self.path, create_if_missing=True, bloom_filter_bits=10)
        self.store = store

    def put(self):
        put, value = self.db.put, self.value
        for key in self.keys:
            put(key, value)
        return len(self.keys)

    def batch(self):
        for start in range(0, len(self.keys), BATCH):
            with self.db.write_batch() as batch:
                for key in self.keys[start:start + BATCH]:
                    batch.put(key, self.value)
        return len(self.keys)

    def settle(self):
        """Moves all entries into tables; not measured."""
        self.db.compact_range(start=b'', stop=b'\xff')
        random.Random(7).shuffle(self.keys)

    def get(self):
        get = self.db.get
        for key in self.keys:
            get(key)
        return len(self.keys)

    def get_absent(self):
        get = self.db.get
        for key in self.keys:
            get(key + b'-')
        return len(self.keys)

    def get_by_threads(self):
        part = len(self.keys) // THREADS

        def work(start):
            get = self.db.get
            for key in self.keys[start:start + part]:
                get(key)

        starts = range(0, part * THREADS, part)
        threads = [threading.Thread(target=work, args=(start,)) for start in starts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return part * THREADS

    def scan(self):
        return sum(1 for _ in self.db)

    def scan_back(self):
        return sum(1 for _ in self.db.iterator(reverse=True))

    def scan_keys(self):
        return sum(1 for _ in self.db.iterator(include_value=False))

    def scan_ten(self):
        count = 0
        for key in self.keys[:len(self.keys) // 10]:
            it = self.db.iterator(start=key)
            for _ in range(10):
                if next(it, None) is not None:
                    count += 1
        return count


MEASURED = ['put', 'get', 'get_absent', 'get_by_threads', 'scan', 'scan_back', 'scan_keys',
            'scan_ten', 'batch']


def measure(name, entries, seed):
    """Returns the seconds per operation of each measurement."""
    directory = tempfile.mkdtemp()
    times = {}
    try:
        run = Run(STORES[name], directory, entries, seed)
        for what in MEASURED:
            start = time.perf_counter()
            count = getattr(run, what)()
            times[what] = (time.perf_counter() - start) / count
            if what == 'put':
                run.settle()
        run.db.close()
    finally:
        shutil.rmtree(directory)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--entries', type=int, default=200_000)
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    times = {name: [] for name in STORES}
    for round in range(arguments.rounds):
        # Each store comes first in every other round.
        for name in sorted(STORES, reverse=round % 2 == 0):
            times[name].append(measure(name, arguments.entries, round))
    print(f'{arguments.entries} entries, medians of {arguments.rounds} rounds, µs per entry')
    print(f'{"":16}{"plyvel":>8}{"minikv":>8}{"faster":>8}')
    for what in MEASURED:
        theirs, ours = (
            statistics.median(round[what] for round in times[name]) * 1e6 for name in STORES)
        print(f'{what:16}{theirs:8.2f}{ours:8.2f}{theirs / ours:8.2f}')


if __name__ == '__main__':
    main()
