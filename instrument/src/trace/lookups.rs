//! Lookups that the recorder itself makes when a database is closed.

use minikv::explain::Explanation;
use minikv::{Db, ReadOnlyDb, Readable};

use super::run::Run;
use crate::error::Result;
use crate::random::Rng;

/// Looks up at most `most` keys in the database of `run`, which no longer changes. The keys are
/// some of the keys in `looked_up` or, if `looked_up` is empty, keys of the database and keys
/// slightly greater than these.
pub fn make(run: &Run, looked_up: &[Vec<u8>], most: usize) -> Result<Vec<Explanation>> {
    let db = Db::open_read_only(&run.path, run.options.clone())?;
    let keys = match looked_up.is_empty() {
        true => keys_of(&db, most)?,
        false => evenly(looked_up, most).cloned().collect(),
    };
    keys.iter().map(|key| Ok(db.explain(key)?)).collect()
}

/// Returns at most `most` elements, evenly spaced.
fn evenly<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = all.len().min(most);
    (0..count).map(move |i| &all[i * all.len() / count])
}

/// Returns keys from all parts of the database, each followed by a slightly greater key.
fn keys_of(db: &ReadOnlyDb, most: usize) -> Result<Vec<Vec<u8>>> {
    let all = db.approximate_size(..)?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let (mut cursor, mut passed) = (db.cursor()?, 0u64);
    let step = (all / (most as u64 / 2).max(1)).max(1);
    let mut at = cursor.seek_to_first()?;
    while at && keys.len() + 1 < most {
        if passed == 0 || passed >= step {
            passed = 0;
            let key = cursor.key().to_vec();
            keys.push(key.clone());
            keys.push([&key[..], b"~"].concat());
        }
        passed += (cursor.key().len() + cursor.value().len()).max(1) as u64;
        at = cursor.next()?;
    }
    // In key order, most lookups would find their block in the cache, because the preceding lookup
    // has read the block.
    Rng::new(0).shuffle(&mut keys);
    Ok(keys)
}
