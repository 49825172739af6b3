//! Compaction filters: the next compaction removes offers that have expired.
//!
//! ```text
//! cargo run --release --example compaction_filter
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minikv::{CompactionDecision, Db, Options, Readable};

/// Returns whether a value, which begins with the time of its expiry in seconds, has expired at
/// `now`.
fn has_expired(value: &[u8], now: u64) -> bool {
    value.first_chunk().is_some_and(|expiry| u64::from_be_bytes(*expiry) <= now)
}

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    // A real program asks the system for the time.
    let clock = Arc::new(AtomicU64::new(1000));
    let now = clock.clone();
    let options = Options::default().create_if_missing(true).compaction_filter(
        move |key: &[u8], value: &[u8]| {
            let now = now.load(Ordering::Relaxed);
            match key.starts_with(b"offer/") && has_expired(value, now) {
                true => CompactionDecision::Remove,
                false => CompactionDecision::Keep,
            }
        },
    );
    let db = Db::open(home.path().join("db"), options)?;
    for id in 0..1000u64 {
        let expiry: u64 = 1000 + id;
        db.put(format!("offer/{id:04}"), [&expiry.to_be_bytes()[..], b"data"].concat())?;
    }
    db.put("user/ann", "stays")?;

    clock.store(1600, Ordering::Relaxed);
    db.compact_range(..)?;
    println!("{} offers are left", db.prefix("offer/")?.count());
    // Until the next compaction, a reader must check the expiry itself.
    clock.store(1700, Ordering::Relaxed);
    let offer = db.get("offer/0650")?;
    assert!(offer.is_some_and(|value| has_expired(&value, 1700)));
    Ok(())
}
