use std::cmp::Ordering;
use std::cmp::Ordering::{Equal, Greater, Less};

use super::order::compare;
use super::*;
use crate::base::random::Rng;

/// A value as a program sees it. The order of the variants is the order that the standard defines.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Value {
    Min,
    Number(f64),
    Date(f64),
    String(Vec<u16>),
    Binary(Vec<u8>),
    Array(Vec<Value>),
    Max,
}

use Value::{Array, Binary, Date, Max, Min, Number, String as Text};

/// A key. Keys with equal ids and an equal type byte sort in the order of these variants.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Key {
    Global(Vec<u64>),
    DatabaseName(Vec<u16>, Vec<u16>),
    Database(u64, Vec<u64>),
    StoreName(u64, Vec<u16>),
    IndexName(u64, u64, Vec<u16>),
    /// Database, store, index, value.
    Data([u64; 3], Value),
    /// Database, store, index, value, primary value, sequence number.
    Index([u64; 3], Value, Value, u64),
}

impl Key {
    /// Compares the ids, then the type bytes, and then the rest in the order of the variants above.
    fn compare(&self, other: &Key) -> Ordering {
        let ids = self.ids().cmp(&other.ids()).then(self.kind().cmp(&other.kind()));
        ids.then_with(|| self.partial_cmp(other).expect("no NaN"))
    }

    fn ids(&self) -> [u64; 3] {
        match self {
            Key::Global(_) | Key::DatabaseName(..) => [0, 0, 0],
            Key::Database(db, _) | Key::StoreName(db, _) | Key::IndexName(db, ..) => [*db, 0, 0],
            Key::Data(ids, _) | Key::Index(ids, ..) => *ids,
        }
    }

    fn kind(&self) -> u64 {
        match self {
            Key::Global(rest) | Key::Database(_, rest) => rest[0],
            Key::StoreName(..) => 200,
            Key::DatabaseName(..) | Key::IndexName(..) => 201,
            Key::Data(..) | Key::Index(..) => 0,
        }
    }

    fn random(rng: &mut Rng) -> Key {
        let ids = [[1, 2, 300][rng.index(3)], [1, 2, 70_000][rng.index(3)], 0];
        let index = [30, 31, 1 << 30][rng.index(3)];
        match rng.below(8) {
            0 => Key::Global(random_metadata(rng, &[(0, 0), (1, 0), (6, 0), (100, 1)])),
            1 => Key::DatabaseName(random_text(rng), random_text(rng)),
            2 => {
                let kinds = [(0, 0), (5, 0), (50, 2), (100, 3), (150, 1), (151, 2)];
                Key::Database(ids[0], random_metadata(rng, &kinds))
            }
            3 => Key::StoreName(ids[0], random_text(rng)),
            4 => Key::IndexName(ids[0], [1, 200][rng.index(2)], random_text(rng)),
            5 | 6 => Key::Data([ids[0], ids[1], 1 + rng.below(3)], random_value(rng, 0)),
            _ => {
                let (value, primary) = (random_value(rng, 0), random_value(rng, 1));
                Key::Index([ids[0], ids[1], index], value, primary, rng.below(2))
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = prefix(self.ids());
        match self {
            Key::Global(rest) | Key::Database(_, rest) => {
                bytes.push(rest[0] as u8);
                // The last part of the metadata key of a store or an index is a byte below 128,
                // which `put_number` leaves unchanged.
                rest[1..].iter().for_each(|&number| put_number(number, &mut bytes));
            }
            Key::DatabaseName(origin, name) => {
                bytes.push(201);
                put_text(origin, &mut bytes);
                put_text(name, &mut bytes);
            }
            Key::StoreName(_, name) => {
                bytes.push(200);
                put_text(name, &mut bytes);
            }
            Key::IndexName(_, store, name) => {
                bytes.push(201);
                put_number(*store, &mut bytes);
                put_text(name, &mut bytes);
            }
            Key::Data(_, value) => put_value(value, &mut bytes),
            Key::Index(_, value, primary, seq) => {
                put_value(value, &mut bytes);
                put_number(*seq, &mut bytes);
                put_value(primary, &mut bytes);
            }
        }
        bytes
    }
}

fn random_metadata(rng: &mut Rng, kinds: &[(u64, usize)]) -> Vec<u64> {
    let (kind, numbers) = kinds[rng.index(kinds.len())];
    let mut rest = vec![kind];
    rest.extend((0..numbers).map(|i| if i == numbers - 1 { rng.below(100) } else { 1 << (8 * i) }));
    rest
}

fn random_text(rng: &mut Rng) -> Vec<u16> {
    (0..rng.index(4)).map(|_| [0, 97, 98, 0x100, 0xd83d, 0xff41][rng.index(6)]).collect()
}

fn random_value(rng: &mut Rng, depth: usize) -> Value {
    const DOUBLES: [f64; 8] =
        [f64::NEG_INFINITY, -2.5, -1.0, 0.0, 1.0, 255.5, 256.0, f64::INFINITY];
    match rng.index(if depth > 2 { 8 } else { 12 }) {
        0 => Min,
        1 | 2 => Number(DOUBLES[rng.index(8)]),
        3 => Date(DOUBLES[rng.index(8)]),
        4 | 5 => Text(random_text(rng)),
        6 => Binary(rng.bytes(3, 4)),
        7 => Max,
        _ => Array((0..rng.index(4)).map(|_| random_value(rng, depth + 1)).collect()),
    }
}

fn prefix(ids: [u64; 3]) -> Vec<u8> {
    let ids = ids.map(|id| {
        let length = id.to_le_bytes().iter().rposition(|&byte| byte > 0).unwrap_or(0) + 1;
        id.to_le_bytes()[..length].to_vec()
    });
    let lengths = (ids[0].len() - 1) << 5 | (ids[1].len() - 1) << 2 | (ids[2].len() - 1);
    [vec![lengths as u8], ids.concat()].concat()
}

fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(text: &[u16], bytes: &mut Vec<u8>) {
    put_number(text.len() as u64, bytes);
    text.iter().for_each(|unit| bytes.extend(unit.to_be_bytes()));
}

fn put_value(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Max => bytes.push(0),
        Text(text) => {
            bytes.push(1);
            put_text(text, bytes);
        }
        Date(date) => bytes.extend([&[2][..], &date.to_le_bytes()].concat()),
        Number(number) => bytes.extend([&[3][..], &number.to_le_bytes()].concat()),
        Array(values) => {
            bytes.push(4);
            put_number(values.len() as u64, bytes);
            values.iter().for_each(|value| put_value(value, bytes));
        }
        Min => bytes.push(5),
        Binary(binary) => {
            bytes.push(6);
            put_number(binary.len() as u64, bytes);
            bytes.extend(binary);
        }
    }
}

#[test]
fn complete_keys_have_the_order_of_the_standard() {
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let keys: Vec<Key> = (0..40).map(|_| Key::random(&mut rng)).collect();
        for a in &keys {
            for b in &keys {
                assert_eq!(compare(&a.encode(), &b.encode()), a.compare(b), "{a:?} and {b:?}");
            }
        }
    }
}

#[test]
fn the_types_of_values_have_an_order() {
    let values =
        [Min, Number(9.0), Date(8.0), Text(vec![7]), Binary(vec![6]), Array(vec![Min]), Max];
    let key = |value: &Value| Key::Data([1, 1, 1], value.clone()).encode();
    let sorted = values.iter().map(key).is_sorted_by(|a, b| compare(a, b) == Less);
    assert!(sorted, "{values:?}");
}

/// Returns a key with a few bytes changed, removed or added.
fn mutated(rng: &mut Rng) -> Vec<u8> {
    let mut key = Key::random(rng).encode();
    for _ in 0..1 + rng.index(3) {
        let at = rng.index(key.len() + 1);
        let byte = [0, 1, 2, 3, 4, 5, 6, 9, 0x7f, 0x80, 0xf0, 0xff][rng.index(12)];
        match rng.below(4) {
            0 => key.truncate(at),
            1 => key.insert(at, byte),
            2 if at < key.len() => drop(key.remove(at)),
            _ if at < key.len() => key[at] = byte,
            _ => {}
        }
    }
    key
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(5) {
        0 => Key::random(rng).encode(),
        1 => rng.bytes(12, 8),
        // NaNs, arrays with damaged lengths, and random bytes.
        2 => {
            let mut key = prefix([1, 1, 1]);
            let (not_a_number, negative) = ([0xff; 8], [[0xff; 9].as_slice(), &[1]].concat());
            for _ in 0..rng.index(5) {
                match rng.below(4) {
                    0 => key.extend([&[3][..], &not_a_number[..7 + rng.index(2)]].concat()),
                    1 => key.extend([&[4][..], &negative].concat()),
                    2 => key.extend([4, rng.below(3) as u8]),
                    _ => key.extend(rng.bytes(3, 7)),
                }
            }
            key
        }
        _ => mutated(rng),
    }
}

/// Sorts random keys, and then checks that the order of every two keys agrees with their places in
/// the sorted list. Equal neighbours have the same place.
#[test]
fn any_bytes_have_a_total_order() {
    let mut rng = Rng::new(2);
    let (mut damaged, mut equal) = (0, 0);
    for _ in 0..1000 {
        let mut keys: Vec<Vec<u8>> = (0..48).map(|_| random_key(&mut rng)).collect();
        keys.sort_by(|a, b| compare(a, b));
        let mut place = 0;
        let mut places = vec![0];
        for pair in keys.windows(2) {
            place += usize::from(compare(&pair[0], &pair[1]) != Equal);
            places.push(place);
        }
        for (a, place) in keys.iter().zip(&places) {
            for (b, other) in keys.iter().zip(&places) {
                assert_eq!(compare(a, b), place.cmp(other), "{a:02x?} and {b:02x?}");
                equal += usize::from(a != b && place == other);
            }
        }
        damaged += keys.iter().filter(|key| describe(key).is_none()).count();
    }
    assert!(damaged > 10_000 && equal > 4000, "{damaged} damaged, {equal} pairs equal");
}

#[test]
fn keys_may_be_equal_and_differ_in_bytes() {
    let equal: [(&[u8], &[u8]); 6] = [
        // The same id, encoded in two bytes and in one byte.
        (b"\x04\x01\x02\x00\x01\x05", b"\x00\x01\x02\x01\x05"),
        // 0 and -0.
        (b"\0\x01\x01\x01\x03\0\0\0\0\0\0\0\0", b"\0\x01\x01\x01\x03\0\0\0\0\0\0\0\x80"),
        // The same string length, encoded in two bytes and in one byte.
        (b"\0\x01\x01\x01\x01\x81\x00\0a", b"\0\x01\x01\x01\x01\x01\0a"),
        // Bytes after a complete key.
        (b"\0\x01\x01\x01\x05", b"\0\x01\x01\x01\x05more"),
        (b"\0\0\0\0\x01", b"\0\0\0\0\x01more"),
        // A sequence number without a primary value.
        (b"\0\x01\x01\x1e\x05", b"\0\x01\x01\x1e\x05\x07"),
    ];
    for (a, b) in equal {
        assert_eq!((compare(a, b), compare(b, a)), (Equal, Equal), "{a:02x?} and {b:02x?}");
    }
    assert!(!IndexedDbComparator.equal_means_same_bytes());
}

#[test]
fn damage_decides_only_from_where_it_begins() {
    let key = |rest: &[u8]| [b"\0\x01\x01\x01", rest].concat();
    let array = |values: &[&[u8]]| key(&[b"\x04\x02", &values.concat()[..]].concat());
    let (one, two) = (b"\x03\0\0\0\0\0\0\xf0\x3f", b"\x03\0\0\0\0\0\0\0\x40");
    let order = |a: &[u8], b: &[u8]| (compare(a, b), compare(b, a));
    assert_eq!(order(&array(&[one, b"\x03"]), &array(&[two, two])), (Less, Greater));
    assert_eq!(order(&array(&[one, b"\x03zz"]), &array(&[one, one])), (Less, Greater));
    assert_eq!(order(&array(&[two, b"\x03"]), &array(&[one, two])), (Greater, Less));
    assert_eq!(order(&array(&[one, b"\x03a"]), &array(&[one, b"\x03b"])), (Less, Greater));
    // Bounds of ranges: a prefix alone comes before all keys that start with it.
    assert_eq!(order(&key(b""), &key(b"\x05")), (Less, Greater));
    assert_eq!(order(b"", &key(b"")), (Less, Greater));
    // Unknown value types.
    assert_eq!(order(&key(b"\x08z"), &key(b"\x09a")), (Less, Greater));
    assert_eq!(order(&key(b"\x09a"), &key(b"\x09b")), (Less, Greater));
    assert_eq!(order(&key(b"\0"), &key(b"\x08")), (Less, Greater));
}

#[test]
fn entries_of_an_index_are_ordered_by_value_then_primary_value_then_sequence() {
    let key = |value, primary, seq| Key::Index([1, 1, 30], value, primary, seq).encode();
    let sorted = [
        key(Min, Max, 9),
        key(Max, Min, 8),
        key(Max, Min, 9),
        key(Max, Max, 0),
        key(Max, Max, 1 << 40),
    ];
    assert!(sorted.iter().is_sorted_by(|a, b| compare(a, b) == Less && compare(b, a) == Greater));
    let alone = [prefix([1, 1, 30]), vec![0]].concat();
    assert_eq!((compare(&alone, &sorted[1]), compare(&sorted[1], &alone)), (Less, Greater));
}

#[test]
fn keys_become_a_line_of_text() {
    let utf16 = |text: &str| text.encode_utf16().collect::<Vec<_>>();
    let data = |value| Key::Data([1, 2, 1], value);
    let nested = Array(vec![Array(vec![]), Array(vec![Number(-0.5), Min]), Binary(vec![0, 255])]);
    let keys = [
        (Key::Global(vec![0]), "global: schema version"),
        (Key::Global(vec![100, 300]), "global: free database id 300"),
        (
            Key::DatabaseName(utf16("https_a.org_0@1"), utf16("the 'best'\n")),
            r#"global: id of database "https_a.org_0@1" "the 'best'\n""#,
        ),
        (Key::Database(7, vec![4]), "db 7: version"),
        (Key::Database(7, vec![50, 300, 7]), "db 7: store 300: next key"),
        (Key::Database(7, vec![100, 1, 31, 3]), "db 7: store 1 index 31: is multi-entry"),
        (Key::Database(7, vec![151, 1, 31]), "db 7: free index id 31 of store 1"),
        (Key::StoreName(300, utf16("Bücher")), r#"db 300: id of store "Bücher""#),
        (Key::IndexName(1, 2, utf16("by \"x\"")), r#"db 1: store 2: id of index "by \"x\"""#),
        (data(Number(12.0)), "db 1 store 2 data: 12"),
        (data(Number(1e300)), "db 1 store 2 data: 1e300"),
        (data(Date(1_700_000_000_000.0)), "db 1 store 2 data: date 1700000000000"),
        (data(Text(vec![0x61, 0xd800, 0x202e])), r#"db 1 store 2 data: "a\u{d800}\u{202e}""#),
        (data(nested), "db 1 store 2 data: [[], [-0.5, min], 0x00ff]"),
        (Key::Data([1, 2, 2], Min), "db 1 store 2 exists: min"),
        (Key::Data([1, 2, 3], Max), "db 1 store 2 blobs: max"),
        (Key::Index([1, 2, 30], Number(5.0), Min, 0), "db 1 store 2 index 30: 5 of min"),
        (
            Key::Index([1, 2, 30], Array(vec![Number(5.0)]), Number(1.0), 9),
            "db 1 store 2 index 30: [5] of 1 (sequence 9)",
        ),
    ];
    for (key, text) in keys {
        let bytes = key.encode();
        assert_eq!(describe(&bytes).as_deref(), Some(text));
        let ends: Vec<_> =
            (0..bytes.len()).filter(|&end| describe(&bytes[..end]).is_some()).collect();
        // An index entry may end before or after the sequence number.
        let optional = if matches!(key, Key::Index(..)) { 2 } else { 0 };
        assert_eq!(ends.len(), optional, "{text}: {ends:?}");
        assert_eq!(describe(&[&bytes[..], b"\xff"].concat()), None, "{text}");
    }
}

#[test]
fn text_of_any_bytes_is_one_line_and_not_long() {
    let mut rng = Rng::new(3);
    let mut described = 0;
    for _ in 0..100_000 {
        let key = random_key(&mut rng);
        let Some(text) = describe(&key) else { continue };
        described += 1;
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        assert!(text.len() < 100 + 6 * key.len(), "{} bytes became {text:?}", key.len());
    }
    assert!(described > 10_000, "{described}");
}

#[test]
fn arrays_may_be_nested_a_million_deep() {
    let deep = |end: &[u8]| [&prefix([1, 1, 1]), &[4, 1].repeat(1_000_000)[..], end].concat();
    assert_eq!(compare(&deep(&[5]), &deep(&[5])), Equal);
    assert_eq!(compare(&deep(&[5]), &deep(&[3])), Less);
    assert_eq!(describe(&deep(&[5])).map(|text| text.len()), Some(2_000_000 + 22));
    assert_eq!(describe(&deep(&[])), None);
    // An array that claims far more values than the key has bytes.
    let many = |end: &[u8]| [&prefix([1, 1, 1]), &[4][..], &[0xff; 8], &[0x7f], end].concat();
    assert_eq!(compare(&many(&[5]), &many(&[5])), Equal);
    assert_eq!(describe(&many(&[5])), None);
    let negative = [&prefix([1, 1, 1])[..], &[4], &[0xff; 9], &[1]].concat();
    assert_eq!(describe(&negative), None);
}
