//! Sorts keys with a comparator defined by the program: `cargo run --example comparator`.
//!
//! The database stores the comparator's name and can be opened only with a comparator of that name.
//! Keys that sort correctly as bytes need no comparator, so most programs encode numbers as
//! big-endian.

use std::cmp::Ordering;

use minikv::{Comparator, Db, Error, Options, Readable, Result};

/// Orders decimal numbers by value, so that 9 comes before 10.
#[derive(Debug)]
struct Numeric;

impl Comparator for Numeric {
    fn name(&self) -> &str {
        "example.Numeric"
    }

    // This must be a total order that never changes, and it must not panic.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }

    // Keys that compare equal have the same bytes, so filters can be used.
    fn equal_means_same_bytes(&self) -> bool {
        true
    }
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("db");
    let options = Options::default().create_if_missing(true).comparator(Numeric);
    let db = Db::open(&dir, options)?;
    for number in [10, 9, 100, 2] {
        db.put(number.to_string(), "")?;
    }
    let mut keys = Vec::new();
    for entry in db.range("3"..) {
        keys.push(String::from_utf8_lossy(&entry?.0).into_owned());
    }
    println!("from 3 on: {}", keys.join(", "));
    assert_eq!(keys, ["9", "10", "100"]);
    db.close()?;

    match Db::open(&dir, Options::default()) {
        Err(error @ Error::Unsupported { .. }) => println!("without the comparator: {error}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}
