//! A long listing in pages, as a web service returns it: `cargo run --example pages`.
//!
//! The token for the next page is the last key of the current page. If entries are added or deleted
//! between two pages, no other entry is repeated or left out.

use std::ops::Bound;

use minikv::{Bytes, Db, Readable, Result};

const PAGE: usize = 4;

/// Returns at most [`PAGE`] entries under `prefix` that come after the key `after`.
fn page(db: &Db, prefix: &str, after: Option<&Bytes>) -> Result<Vec<(Bytes, Bytes)>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    db.prefix_from(prefix, from)?.take(PAGE).collect()
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;
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
        db.delete(key)?; // the next page can still be found
    }
    Ok(())
}
