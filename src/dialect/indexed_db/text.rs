//! Formats keys as text.

use std::fmt::{Result, Write};

use super::{
    Kind, Prefix, metadata, take_binary, take_byte, take_double, take_number, take_prefix,
    take_string, value,
};

/// Returns a complete key as one line of text, such as `db 1 store 2 data: "apple"`. Returns `None`
/// if the key is damaged or of an unknown kind.
pub fn describe(key: &[u8]) -> Option<String> {
    let mut rest = key;
    let mut text = String::new();
    describe_key(&mut rest, &mut text)?;
    rest.is_empty().then_some(text)
}

fn describe_key(rest: &mut &[u8], text: &mut String) -> Option<()> {
    let prefix = take_prefix(rest)?;
    let Prefix { database, store, index } = prefix;
    let kind = prefix.kind();
    match kind {
        Kind::Global if prefix == (Prefix { database: 0, store: 0, index: 0 }) => {
            text.push_str("global: ");
            return describe_global(rest, text);
        }
        Kind::Database if index == 0 => {
            write!(text, "db {database}: ").ok()?;
            return describe_database(rest, text);
        }
        Kind::Data => write!(text, "db {database} store {store} data: "),
        Kind::Exists => write!(text, "db {database} store {store} exists: "),
        Kind::Blobs => write!(text, "db {database} store {store} blobs: "),
        Kind::Index => write!(text, "db {database} store {store} index {index}: "),
        Kind::Global | Kind::Database | Kind::Unknown => return None,
    }
    .ok()?;
    describe_value(rest, text)?;
    if kind == Kind::Index && !rest.is_empty() {
        let seq = take_number(rest)?;
        if !rest.is_empty() {
            text.push_str(" of ");
            describe_value(rest, text)?;
        }
        if seq != 0 {
            write!(text, " (sequence {seq})").ok()?;
        }
    }
    Some(())
}

fn describe_global(rest: &mut &[u8], text: &mut String) -> Option<()> {
    let simple = match take_byte(rest)? {
        0 => "schema version",
        1 => "largest database id",
        2 => "data version",
        3 => "journal of blobs to recover",
        4 => "journal of blobs in use",
        5 => "earliest sweep",
        6 => "earliest compaction",
        metadata::SCOPES => {
            let bytes = std::mem::take(rest);
            write!(text, "scopes {}", bytes.escape_ascii()).ok()?;
            return Some(());
        }
        metadata::FREE_DATABASE => {
            write!(text, "free database id {}", take_number(rest)?).ok()?;
            return Some(());
        }
        metadata::DATABASE_NAME => {
            text.push_str("id of database ");
            quote(take_string(rest)?, text).ok()?;
            text.push(' ');
            quote(take_string(rest)?, text).ok()?;
            return Some(());
        }
        _ => return None,
    };
    text.push_str(simple);
    Some(())
}

fn describe_database(rest: &mut &[u8], text: &mut String) -> Option<()> {
    let simple = match take_byte(rest)? {
        0 => "origin",
        1 => "name",
        2 => "version as a string",
        3 => "largest store id",
        4 => "version",
        5 => "next blob number",
        metadata::STORE => {
            write!(text, "store {}: ", take_number(rest)?).ok()?;
            of_store(take_byte(rest)?)?
        }
        metadata::INDEX => {
            let (store, index) = (take_number(rest)?, take_number(rest)?);
            write!(text, "store {store} index {index}: ").ok()?;
            of_index(take_byte(rest)?)?
        }
        metadata::FREE_STORE => {
            write!(text, "free store id {}", take_number(rest)?).ok()?;
            return Some(());
        }
        metadata::FREE_INDEX => {
            let (store, index) = (take_number(rest)?, take_number(rest)?);
            write!(text, "free index id {index} of store {store}").ok()?;
            return Some(());
        }
        metadata::STORE_NAME => {
            text.push_str("id of store ");
            quote(take_string(rest)?, text).ok()?;
            return Some(());
        }
        metadata::INDEX_NAME => {
            write!(text, "store {}: id of index ", take_number(rest)?).ok()?;
            quote(take_string(rest)?, text).ok()?;
            return Some(());
        }
        _ => return None,
    };
    text.push_str(simple);
    Some(())
}

fn of_store(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "name",
        1 => "key path",
        2 => "auto increment",
        3 => "is evictable",
        4 => "last version",
        5 => "largest index id",
        6 => "has a key path",
        7 => "next key",
        _ => return None,
    })
}

fn of_index(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "name",
        1 => "is unique",
        2 => "key path",
        3 => "is multi-entry",
        _ => return None,
    })
}

/// Describes a value. Arrays can be nested as deeply as the length of the key allows, so the
/// function does not recurse.
fn describe_value(rest: &mut &[u8], text: &mut String) -> Option<()> {
    // Number of values left in each enclosing array; the innermost array is last.
    let mut arrays: Vec<i64> = Vec::new();
    loop {
        match take_byte(rest)? {
            value::MIN => text.push_str("min"),
            value::MAX => text.push_str("max"),
            value::NUMBER => write_number(take_double(rest)?, text).ok()?,
            value::DATE => {
                text.push_str("date ");
                write_number(take_double(rest)?, text).ok()?;
            }
            value::STRING => quote(take_string(rest)?, text).ok()?,
            value::BINARY => {
                text.push_str("0x");
                take_binary(rest)?.iter().try_for_each(|byte| write!(text, "{byte:02x}")).ok()?;
            }
            value::ARRAY => {
                text.push('[');
                let length = take_number(rest)?;
                if length < 0 {
                    return None;
                }
                if length > 0 {
                    arrays.push(length);
                    continue;
                }
                text.push(']');
            }
            _ => return None,
        }
        // A value has ended, together with all arrays of which it was the last value.
        loop {
            let Some(left) = arrays.last_mut() else { return Some(()) };
            *left -= 1;
            if *left > 0 {
                text.push_str(", ");
                break;
            }
            text.push(']');
            arrays.pop();
        }
    }
}

/// Writes whole numbers without a decimal point, and very large and very small numbers with an
/// exponent.
fn write_number(number: f64, text: &mut String) -> Result {
    if number.fract() == 0.0 && number.abs() < 1e21 {
        write!(text, "{number}")
    } else {
        write!(text, "{number:?}")
    }
}

/// Writes UTF-16 in quotes, with Rust's escapes for unprintable characters.
fn quote(units: &[u8], text: &mut String) -> Result {
    let units = units.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
    text.push('"');
    for unit in char::decode_utf16(units) {
        match unit {
            Ok('\'') => text.push('\''),
            Ok(char) => text.extend(char.escape_debug()),
            Err(lone) => write!(text, "\\u{{{:x}}}", lone.unpaired_surrogate())?,
        }
    }
    text.push('"');
    Ok(())
}
