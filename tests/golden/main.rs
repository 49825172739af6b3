//! Compares the files that this crate writes and reads, byte for byte, with those of LevelDB,
//! goleveldb and Chromium.
//!
//! The field `about` of each JSON file states the contents of the fixture and the program that made
//! it.

use std::fs;
use std::path::{Path, PathBuf};

use minikv_support::recount;
use serde_json::Value;
use sha2::{Digest, Sha256};

mod databases;
mod explain;
mod indexed_db;
mod tables;
mod vectors;
mod verify;

/// Returns the path of a fixture.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read_fixture(name: &str) -> Vec<u8> {
    let path = fixture(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_json(name: &str) -> Value {
    serde_json::from_slice(&read_fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the items of a JSON list, which must not be empty: a test over no items tests nothing.
fn items<'a>(parent: &'a Value, name: &str) -> &'a [Value] {
    let items = parent[name].as_array().unwrap_or_else(|| panic!("{name} is no list"));
    assert!(!items.is_empty(), "{name} is empty");
    items
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Decodes a JSON string of hex digits.
fn bytes(value: &Value) -> Vec<u8> {
    unhex(text(value))
}

fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).unwrap_or_else(|| panic!("{hex} is not hex")) as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
