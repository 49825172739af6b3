//! Blocks of tables: entries forwards, backwards, and by a search for every key. A block that the
//! twin calls sound is never refused, and a damaged one never answers what the twin does not.

use std::cmp::Ordering;
use std::sync::Arc;

use minikv::BytewiseComparator;
use minikv::internals::block::Block;
use minikv::internals::block::cursor::BlockCursor;
use minikv::internals::format::key::{KeyOrder, UserComparator};

use crate::twin;
use crate::twin::block::{Entry, Item};
use crate::{Input, bad, covered, is_long, up_to, words, words_of};

/// The library's order of keys, and the twin's.
pub struct Order {
    pub library: KeyOrder,
    pub twin: fn(&[u8], &[u8]) -> Ordering,
}

fn bytewise() -> Order {
    let library = KeyOrder::User(UserComparator::new(Arc::new(BytewiseComparator)));
    Order { library, twin: |a, b| a.cmp(b) }
}

/// The answer of one move of a cursor: an entry, none, or damage.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Entry(Vec<u8>, Vec<u8>),
    None,
    Damage,
}

impl Answer {
    fn of(moved: minikv::Result<bool>, cursor: &BlockCursor) -> Answer {
        let is_entry = *moved.as_ref().unwrap_or(&false);
        assert_eq!(cursor.valid(), is_entry, "at an entry");
        match moved {
            Ok(true) => {
                assert_eq!(cursor.value_bytes(), cursor.value());
                Answer::Entry(cursor.key().to_vec(), cursor.value().to_vec())
            }
            Ok(false) => Answer::None,
            Err(error) => {
                assert_eq!(bad(&error), twin::Bad::Damaged, "{error}");
                Answer::Damage
            }
        }
    }

    fn expected(item: Option<&Item>) -> Answer {
        match item {
            Some(Item::Entry(entry)) => Answer::to(entry),
            Some(Item::Damage) => Answer::Damage,
            None => Answer::None,
        }
    }

    fn to(entry: &Entry) -> Answer {
        Answer::Entry(entry.key.clone(), entry.value.clone())
    }
}

/// Compares a block with the twin's, and what searches for `targets` find.
pub fn compare(contents: &[u8], made: minikv::Result<Block>, order: &Order, targets: &[Vec<u8>]) {
    let _input = Input(contents);
    let Some(expected) = twin::block::block(contents) else {
        let error = made.expect_err("the restart array is damaged");
        assert_eq!(bad(&error), twin::Bad::Damaged, "{error}");
        return;
    };
    let Ok(block) = made else {
        assert!(expected.is_damaged(), "a sound block is refused");
        return;
    };
    let mut cursor = block.cursor();
    compare_forwards(&expected, &mut cursor);
    if expected.is_misaligned {
        return compare_misaligned(&expected, &mut cursor, order, targets);
    }
    compare_backwards(&expected, &mut cursor);
    let ascends = expected.ascends(order.twin);
    for target in targets {
        if ascends {
            compare_search(&expected, &mut cursor, order, target);
        } else {
            drop(cursor.seek(&order.library, target).map(|_| (cursor.prev(), cursor.next())));
        }
    }
}

/// Compares the entries from the first one on. Damage may be noticed at a restart point, too.
fn compare_forwards(expected: &twin::block::Block, cursor: &mut BlockCursor) {
    let mut found = Vec::new();
    let mut moved = cursor.seek_to_first();
    let end = loop {
        match Answer::of(moved, cursor) {
            answer @ Answer::Entry(..) => found.push(answer),
            end => break end,
        }
        moved = cursor.next();
    };
    let all: Vec<Answer> = expected.forwards.iter().map(Answer::to).collect();
    if end == Answer::None {
        assert!(expected.is_whole && found == all, "{found:?} and no more");
    } else {
        assert!(expected.is_damaged() && all.starts_with(&found), "{found:?} and damage");
        let sound = expected.items.iter().position(|item| *item == Item::Damage);
        assert!(expected.is_misaligned || found.len() >= sound.unwrap(), "only {found:?}");
    }
    assert_eq!(Answer::of(cursor.next(), cursor), Answer::None, "after the end");
}

/// Compares the entries from the last one on, up to the first damage.
fn compare_backwards(expected: &twin::block::Block, cursor: &mut BlockCursor) {
    let mut moved = cursor.seek_to_last();
    for item in expected.items.iter().rev() {
        let answer = Answer::of(moved, cursor);
        assert_eq!(answer, Answer::expected(Some(item)), "backwards");
        if answer == Answer::Damage {
            return;
        }
        moved = cursor.prev();
    }
    assert_eq!(Answer::of(moved, cursor), Answer::None, "before the first");
}

/// Checks what still holds if an entry goes on past a restart point. A search and a step backwards
/// may then take the inside of an entry for an entry, as in LevelDB. But a search finds no key
/// before its target, and unlike in LevelDB, all entries backwards are all entries forwards.
fn compare_misaligned(
    expected: &twin::block::Block,
    cursor: &mut BlockCursor,
    order: &Order,
    targets: &[Vec<u8>],
) {
    for target in targets {
        let moved = cursor.seek(&order.library, target);
        if let Answer::Entry(key, _) = Answer::of(moved, cursor) {
            assert_ne!((order.twin)(&key, target), Ordering::Less, "{key:02x?} for {target:02x?}");
            drop(cursor.prev().map(|_| cursor.next()));
        }
    }
    let mut found = Vec::new();
    let mut moved = cursor.seek_to_last();
    loop {
        match Answer::of(moved, cursor) {
            answer @ Answer::Entry(..) => found.push(answer),
            Answer::Damage => return,
            Answer::None => break,
        }
        moved = cursor.prev();
    }
    let all: Vec<Answer> = expected.forwards.iter().rev().map(Answer::to).collect();
    assert_eq!(found, all, "backwards without damage");
}

/// Compares a search, and the steps from what it found. A search that reads damage on its way may
/// report it, although it is not where the key would be.
fn compare_search(
    expected: &twin::block::Block,
    cursor: &mut BlockCursor,
    order: &Order,
    target: &[u8],
) {
    let moved = cursor.seek(&order.library, target);
    let answer = Answer::of(moved, cursor);
    let at = expected.seek(order.twin, target);
    let right = at.map_or(Answer::Damage, |at| Answer::expected(expected.items.get(at)));
    if answer == Answer::Damage && expected.is_damaged() {
        return;
    }
    assert_eq!(answer, right, "the search for {target:02x?}");
    let Ok(at) = at else { return };
    if at == expected.items.len() {
        return;
    }
    let before = at.checked_sub(1).map(|before| &expected.items[before]);
    assert_eq!(Answer::of(cursor.prev(), cursor), Answer::expected(before), "before the found");
    cursor.seek(&order.library, target).expect("the same search");
    let next = Answer::of(cursor.next(), cursor);
    let Item::Entry(found) = &expected.items[at] else { unreachable!("a search found it") };
    let after = expected.after(found).as_ref().map(Answer::to);
    let is_right = next == Answer::expected(expected.items.get(at + 1))
        || (expected.is_damaged() && (next == Answer::Damage || Some(&next) == after.as_ref()));
    assert!(is_right, "{next:?} after {found:?}");
}

/// Returns the bytes of a block.
pub fn with_restarts(entries: &[u8], restarts: &[u32]) -> Vec<u8> {
    let mut block = entries.to_vec();
    block.extend(restarts.iter().flat_map(|restart| restart.to_le_bytes()));
    block.extend((restarts.len() as u32).to_le_bytes());
    block
}

/// Entries as they are stored: `head` has the three lengths.
fn shapes(heads: &[[&'static [u8]; 3]], most: usize) -> Vec<Vec<u8>> {
    let mut shapes = Vec::new();
    for shared in [0, 1, 2, 200].iter().take(most) {
        for key in [&b"k"[..], b"", b"kk"].iter().take(most) {
            for value in [&b""[..], b"v"] {
                let head = [*shared, key.len() as u8, value.len() as u8];
                let head = if *shared == 200 { &[200, 1, head[1], head[2]][..] } else { &head };
                shapes.push([head, key, value].concat());
            }
        }
    }
    shapes.extend(heads.iter().map(|lens| [&lens.concat()[..], b"kv"].concat()));
    shapes
}

/// Lengths that are right but long, or wrong: too long for the block, past 32 bits together, and
/// damaged varints.
const HEADS: [[&[u8]; 3]; 12] = [
    [&[0x80, 0], &[1], &[1]],
    [&[0], &[0x81, 0], &[1]],
    [&[0], &[1], &[0x81, 0x80, 0]],
    [&[0], &[0xc8, 1], &[0]],
    [&[0], &[1], &[0xc8, 1]],
    [&[0], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[3]],
    [&[0], &[1], &[0xff, 0xff, 0xff, 0xff, 0x0f]],
    [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[1], &[1]],
    [&[0], &[1], &[0x81, 0x80, 0x80, 0x80, 0x10]],
    [&[0], &[1], &[0x81, 0x80, 0x80, 0x80, 0x80, 0]],
    [&[0x80], &[0x80], &[0x80]],
    [&[0], &[], &[]],
];

/// Calls `each` with restart arrays for entries that begin at `starts` and end at `end`: all that
/// have 0 and other beginnings of entries, and wrong ones.
fn restart_arrays(starts: &[u32], end: u32, mut each: impl FnMut(&[u32])) {
    let rest = starts.get(1..).unwrap_or(&[]);
    for chosen in 0..1_u32 << rest.len() {
        let others = rest.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
        let restarts: Vec<u32> = [0].into_iter().chain(others.map(|(_, start)| *start)).collect();
        each(&restarts);
    }
    let last = *starts.last().unwrap_or(&0);
    let wrong: [&[u32]; 12] = [
        &[],
        &[1],
        &[last, 0],
        &[0, 0],
        &[0, last + 1],
        &[0, last.wrapping_sub(1)],
        &[0, end],
        &[0, end + 1],
        &[0, end.wrapping_sub(1)],
        &[0, u32::MAX],
        &[0, last, last],
        &[0, last, end],
    ];
    wrong.into_iter().for_each(&mut each);
}

/// Compares blocks of up to `most` of these entries, with all restart arrays.
fn compare_all(shapes: &[Vec<u8>], most: usize) -> u64 {
    let order = bytewise();
    let keys: [&[u8]; 7] = [b"", b"a", b"b", b"bk", b"c", b"d", b"\xff"];
    let targets: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
    let mut inputs = 0;
    let shapes: Vec<&[u8]> = shapes.iter().map(Vec::as_slice).collect();
    words(&shapes, most, |shapes| {
        let (mut entries, mut starts) = (Vec::new(), Vec::new());
        for (place, shape) in shapes.iter().enumerate() {
            starts.push(entries.len() as u32);
            // Keys that share nothing ascend from entry to entry.
            let letter = b'b' + place as u8;
            entries.extend(shape.iter().map(|byte| if *byte == b'k' { letter } else { *byte }));
        }
        restart_arrays(&starts, entries.len() as u32, |restarts| {
            let block = with_restarts(&entries, restarts);
            compare(&block, Block::new(&block), &order, &targets);
            inputs += 1;
        });
    });
    inputs
}

#[test]
fn blocks_by_grammar_answer_like_the_twin() {
    let short = compare_all(&shapes(&HEADS, 4), 2);
    covered(short, "blocks of up to two entries");
    let few = if is_long() { shapes(&HEADS[2..5], 3) } else { shapes(&HEADS[4..5], 2) };
    covered(compare_all(&few, up_to(3, 4)), "blocks of more entries of fewer shapes");
    if is_long() {
        covered(compare_all(&shapes(&HEADS, 4), 3), "blocks of three entries");
    }
}

#[test]
fn blocks_of_any_short_bytes_answer_like_the_twin() {
    let order = bytewise();
    let targets: Vec<Vec<u8>> =
        [&b""[..], b"\x01", b"\x02", b"a", b"\xff"].map(<[u8]>::to_vec).into();
    let mut inputs = 0;
    words(&[0, 1, 2, b'a', 0x80], up_to(6, 8), |entries| {
        for restarts in [&[0][..], &[0, 3], &[0, 4]] {
            let block = with_restarts(entries, restarts);
            compare(&block, Block::new(&block), &order, &targets);
            inputs += 1;
        }
    });
    words(&[0, 1, 2, 3, 4, 0xff], up_to(5, 7), |block| {
        compare(block, Block::new(block), &order, &targets);
        inputs += 1;
    });
    // Counts of restart points that do not fit.
    words_of(&[0, 1, 2, 0x3f, 0x40, 0xff], 4, &mut |count| {
        let block = [&[0; 8], count].concat();
        compare(&block, Block::new(&block), &order, &targets);
        inputs += 1;
    });
    covered(inputs, "blocks of short bytes");
}
