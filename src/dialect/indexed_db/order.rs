//! The order of keys.
//!
//! Two keys are decoded side by side for as long as they are equal. If the next part of only one
//! key cannot be decoded, that key comes first; if the next part of neither key can be decoded, the
//! remaining bytes are compared.

use std::cmp::Ordering;
use std::ops::ControlFlow::{self, Break, Continue};

use super::{
    Kind, SIMPLE_DATABASE, SIMPLE_GLOBAL, metadata, take_binary, take_byte, take_double,
    take_number, take_prefix, take_string, value,
};

/// Result of comparing one part of two keys: `Break` with the order of the keys if this part
/// decides the order, `Continue` if the keys are equal in this part.
type PartOrder = ControlFlow<Ordering>;

pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match compare_keys(a, b) {
        Break(order) => order,
        Continue(()) => Ordering::Equal,
    }
}

fn compare_keys<'k>(mut a: &'k [u8], mut b: &'k [u8]) -> PartOrder {
    let (prefix, other) = both(&mut a, &mut b, take_prefix)?;
    step(prefix.cmp(&other))?;
    match prefix.kind() {
        Kind::Global => compare_global(a, b),
        Kind::Database => compare_database(a, b),
        Kind::Data | Kind::Exists | Kind::Blobs => compare_values(&mut a, &mut b),
        Kind::Index => {
            compare_values(&mut a, &mut b)?;
            compare_after_value(a, b)
        }
        Kind::Unknown => Break(a.cmp(b)),
    }
}

fn compare_global<'k>(mut a: &'k [u8], mut b: &'k [u8]) -> PartOrder {
    let (a, b) = (&mut a, &mut b);
    match compare_next(a, b, take_byte)? {
        0..SIMPLE_GLOBAL => Continue(()),
        metadata::SCOPES => step((*a).cmp(*b)),
        metadata::FREE_DATABASE => compare_next(a, b, take_number).map_continue(drop),
        metadata::DATABASE_NAME => {
            compare_next(a, b, take_string)?;
            compare_next(a, b, take_string).map_continue(drop)
        }
        _ => Break((*a).cmp(*b)),
    }
}

fn compare_database<'k>(mut a: &'k [u8], mut b: &'k [u8]) -> PartOrder {
    let (a, b) = (&mut a, &mut b);
    match compare_next(a, b, take_byte)? {
        0..SIMPLE_DATABASE => Continue(()),
        metadata::STORE => {
            compare_next(a, b, take_number)?;
            compare_next(a, b, take_byte).map_continue(drop)
        }
        metadata::INDEX => {
            compare_next(a, b, take_number)?;
            compare_next(a, b, take_number)?;
            compare_next(a, b, take_byte).map_continue(drop)
        }
        metadata::FREE_STORE => compare_next(a, b, take_number).map_continue(drop),
        metadata::FREE_INDEX => {
            compare_next(a, b, take_number)?;
            compare_next(a, b, take_number).map_continue(drop)
        }
        metadata::STORE_NAME => compare_next(a, b, take_string).map_continue(drop),
        metadata::INDEX_NAME => {
            compare_next(a, b, take_number)?;
            compare_next(a, b, take_string).map_continue(drop)
        }
        _ => Break((*a).cmp(*b)),
    }
}

/// Compares the next values of the two keys, and advances both keys past them. Arrays can be nested
/// as deeply as the length of the key allows, so the function does not recurse.
fn compare_values<'k>(a: &mut &'k [u8], b: &mut &'k [u8]) -> PartOrder {
    // Number of values left in the enclosing arrays of each key: `array` for the innermost array,
    // `outer` for the arrays around it.
    let mut array: Option<[i64; 2]> = None;
    let mut outer = Vec::new();
    loop {
        if let Some(lengths) = compare_one(a, b)? {
            outer.extend(array.replace(lengths));
        }
        loop {
            match &mut array {
                None => return Continue(()),
                Some([left, other]) if *left > 0 && *other > 0 => {
                    *left -= 1;
                    *other -= 1;
                    break;
                }
                Some([left, other]) => step((*left).cmp(other))?,
            }
            array = outer.pop();
        }
    }
}

/// Compares the next values of the two keys. If both values are arrays, compares only the types and
/// returns the lengths of the arrays.
fn compare_one<'k>(a: &mut &'k [u8], b: &mut &'k [u8]) -> ControlFlow<Ordering, Option<[i64; 2]>> {
    let (kind, other) = both(a, b, take_byte)?;
    step(rank(kind).cmp(&rank(other)))?;
    match kind {
        value::MAX | value::MIN => {}
        value::NUMBER | value::DATE => {
            let (number, other) = both(a, b, take_double)?;
            step(compare_doubles(number, other))?;
        }
        value::STRING => drop(compare_next(a, b, take_string)?),
        value::BINARY => drop(compare_next(a, b, take_binary)?),
        value::ARRAY => {
            let (length, other) = both(a, b, take_number)?;
            return Continue(Some([length, other]));
        }
        _ => return Break(kind.cmp(&other).then_with(|| (*a).cmp(*b))),
    }
    Continue(None)
}

/// Returns the rank of a type of value. Unknown types are last.
fn rank(kind: u8) -> u8 {
    match kind {
        value::MIN => 0,
        value::NUMBER => 1,
        value::DATE => 2,
        value::STRING => 3,
        value::BINARY => 4,
        value::ARRAY => 5,
        value::MAX => 6,
        _ => 7,
    }
}

/// Compares two numbers. NaNs come first, in the order of their bits.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    let nan = |d: f64| d.is_nan().then_some(d.to_bits());
    a.partial_cmp(&b).unwrap_or_else(|| match (nan(a), nan(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    })
}

/// Compares the parts that follow the value in two index entries.
fn compare_after_value<'k>(a: &'k [u8], b: &'k [u8]) -> PartOrder {
    use AfterValue::{Damage, Nothing, Primary};
    match (AfterValue::of(a), AfterValue::of(b)) {
        (Primary(mut a, seq), Primary(mut b, other)) => {
            compare_values(&mut a, &mut b)?;
            step(seq.cmp(&other))
        }
        (Damage(a), Damage(b)) => Break(a.cmp(b)),
        (Nothing, Nothing) => Continue(()),
        (Nothing, _) | (Damage(_), Primary(..)) => Break(Ordering::Less),
        (_, Nothing) | (Primary(..), Damage(_)) => Break(Ordering::Greater),
    }
}

/// The part of an index entry that follows the value.
enum AfterValue<'k> {
    /// No primary value; there may be a sequence number.
    Nothing,
    /// Bytes that are not a sequence number.
    Damage(&'k [u8]),
    /// The primary value, not decoded yet, and the sequence number.
    Primary(&'k [u8], i64),
}

impl AfterValue<'_> {
    fn of(bytes: &[u8]) -> AfterValue<'_> {
        let mut rest = bytes;
        match take_number(&mut rest) {
            None if bytes.is_empty() => AfterValue::Nothing,
            None => AfterValue::Damage(bytes),
            Some(_) if rest.is_empty() => AfterValue::Nothing,
            Some(seq) => AfterValue::Primary(rest, seq),
        }
    }
}

/// Decodes the next part of both keys with `take`. Breaks if the part of either key cannot be
/// decoded.
fn both<'k, T>(
    a: &mut &'k [u8],
    b: &mut &'k [u8],
    take: impl Fn(&mut &'k [u8]) -> Option<T>,
) -> ControlFlow<Ordering, (T, T)> {
    let (from, other) = (*a, *b);
    match (take(a), take(b)) {
        (Some(read), Some(other)) => Continue((read, other)),
        (None, None) => Break(from.cmp(other)),
        (None, Some(_)) => Break(Ordering::Less),
        (Some(_), None) => Break(Ordering::Greater),
    }
}

/// Decodes the next part of both keys with `take`, and compares the two parts. Returns the part if
/// both are equal.
fn compare_next<'k, T: Ord>(
    a: &mut &'k [u8],
    b: &mut &'k [u8],
    take: impl Fn(&mut &'k [u8]) -> Option<T>,
) -> ControlFlow<Ordering, T> {
    let (read, other) = both(a, b, take)?;
    step(read.cmp(&other))?;
    Continue(read)
}

fn step(order: Ordering) -> PartOrder {
    if order.is_eq() { Continue(()) } else { Break(order) }
}
