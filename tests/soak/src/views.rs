//! Entries that belong together, and the check that a view shows all of them or none.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use minikv::{Db, Readable, Snapshot, WriteBatch, WriteOptions};

use crate::accounts;
use crate::world::{Checked, World};

/// Number of keys that each batch of pairs writes.
const PAIRS: usize = 8;

/// Writes the same number under several keys that lie apart.
pub fn write_pairs(world: &World, db: &Db) -> Checked {
    let synced = db.writing(WriteOptions::default().sync(true));
    let mut number = world.pairs.load(Relaxed);
    while world.wait(Duration::from_millis(2)) {
        number += 1;
        let mut batch = WriteBatch::new();
        (0..PAIRS).for_each(|at| batch.put(format!("pair/{at}"), number.to_be_bytes()));
        let writer = if number.is_multiple_of(50) { &synced } else { db };
        writer.write(batch)?;
        world.pairs.store(number, Relaxed);
        world.writes.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Checks that a view shows no transaction and no batch in part, and the pairs up to `least`.
/// Returns the number of the pairs.
pub fn check_view(world: &World, view: &Snapshot, least: u64, what: &str) -> Checked<u64> {
    let mut numbers = Vec::new();
    for entry in view.prefix("pair/")? {
        let value = entry?.1;
        numbers.push(u64::from_be_bytes(value[..].try_into().expect("eight bytes")));
    }
    let number = numbers.first().copied().unwrap_or(0);
    if numbers.iter().any(|other| *other != number) || !matches!(numbers.len(), 0 | PAIRS) {
        return Err(format!("{what}: a batch is there in part: {numbers:?}").into());
    }
    if number < least {
        return Err(format!("{what}: batch {number} is seen, and {least} was acknowledged").into());
    }
    accounts::check(view, what)?;
    world.reads.fetch_add(numbers.len() as u64, Relaxed);
    Ok(number)
}
