//! Expiry: sessions that expire by themselves.
//!
//! ```text
//! cargo run --release --example expiry
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use minikv::{Db, Expiry, Options, Readable, WriteBatch};

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    // A real program sets no clock, and so uses the system's clock.
    let seconds = Arc::new(AtomicU64::new(1000));
    let now = seconds.clone();
    let options = Options::default()
        .create_if_missing(true)
        .clock(move || UNIX_EPOCH + Duration::from_secs(now.load(Ordering::Relaxed)));
    let db = Db::open(home.path().join("db"), options)?;

    let (users, sessions) = (db.keyspace("users")?, db.expiring_keyspace("sessions")?);
    let mut batch = WriteBatch::new();
    batch.put_in(&users, "ann", "Ann Lee");
    batch.put_for_in(&sessions, "s1", "ann", Duration::from_secs(60))?;
    db.write(batch)?;
    sessions.put_for("s2", "bob", Duration::from_secs(600))?;
    sessions.put("s3", "root")?;
    assert_eq!(sessions.expiry("s3")?, Some(Expiry::Never));

    seconds.store(1060, Ordering::Relaxed);
    for entry in sessions.iter() {
        let (session, user) = entry?;
        println!("{} is that of {}", session.escape_ascii(), user.escape_ascii());
    }
    assert_eq!(sessions.get("s1")?, None);
    assert_eq!(sessions.iter().count(), 2);

    // Background compactions free the space of expired entries. This compaction frees it at once.
    sessions.compact_range(..)?;
    Ok(())
}
