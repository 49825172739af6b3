"""Prints entries of the shape of a Minecraft world, in the order of their keys, as lines of
hexadecimal for `minikv load`: docs/performance.md, "Scans on several threads".

    python3 benches/world.py CHUNKS | minikv --db DIR --compression deflate load --sorted --format hex
"""

import random
import struct
import sys

HEIGHTS = 8
BLOCKS = 1500


def keys(chunks):
    """Returns keys of x and z (little-endian), the tag 47 and a height."""
    side = int((chunks / HEIGHTS) ** 0.5)
    places = [(x, z, y) for x in range(side) for z in range(side) for y in range(HEIGHTS)]
    return sorted(struct.pack("<iiBb", x, z, 47, y) for x, z, y in places)


def value(rng, words, key):
    """Returns packed blocks, which repeat in part, and the names of a palette."""
    near = [rng.choice(words) for _ in range(48)]
    blocks = (rng.choice(near) if rng.random() < 0.35 else near[i // 5 % 7] for i in range(BLOCKS))
    names = (
        b"\x0a\x00\x00\x08\x04\x00name%c\x00minecraft:block_%d" % (9 + i % 7, rng.randrange(300))
        for i in range(16)
    )
    return b"\x09\x01" + key[9:10] + b"".join(blocks) + b"".join(names)


def main():
    rng = random.Random(7)
    draw = lambda: rng.getrandbits(32) & rng.getrandbits(32) & 0x33333333
    words = [struct.pack("<I", draw()) for _ in range(64)]
    for key in keys(int(sys.argv[1])):
        print(key.hex(), value(rng, words, key).hex(), sep="\t")


main()
