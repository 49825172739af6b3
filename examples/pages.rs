//! A long listing page by page, as a web service gives it: `cargo run --example pages`.
//!
//! The token of the next page is the last key of this one. Entries that are added or deleted
//! between two pages do no harm: no other entry is shown twice or left out.

use std::ops::Bound;

use minikv::{Bytes, Db, Options, Result};

const PAGE: usize = 4;

/// At most [`PAGE`] entries under `prefix` after the key `after`.
fn page(db: &Db, prefix: &str, after: Option<&Bytes>) -> Result<Vec<(Bytes, Bytes)>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    db.prefix_from(prefix, from)?.take(PAGE).collect()
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(home.path().join("db"), Options::default().create_if_missing(true))?;
    for number in 1..=10 {
        db.put(format!("order/{number:04}"), format!("{number} apples"))?;
    }
    db.put("user/ann", "not an order")?;

    let mut last = None;
    for number in 1.. {
        let entries = page(&db, "order/", last.as_ref())?;
        let Some((key, _)) = entries.last() else { break };
        last = Some(key.clone());
        let keys: Vec<_> = entries.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
        println!("page {number}: {}", keys.join(", "));
        db.delete(key)?; // the page after it is found all the same
    }
    Ok(())
}
