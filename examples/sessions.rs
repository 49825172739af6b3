//! Sessions of a web service that expire by themselves: `cargo run --example sessions`.
//!
//! A session ends an hour after it was last used. A second keyspace lists the sessions of each
//! user, so that "log out everywhere" need not search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use minikv::{Db, Keyspace, Options, Readable, Result, WriteBatch};

const LIFE: Duration = Duration::from_secs(3600);

struct Sessions {
    db: Db,
    /// The user of each session.
    users: Keyspace,
    /// Keys `<user>/<session>`, without values.
    by_user: Keyspace,
}

impl Sessions {
    fn open(db: Db) -> Result<Sessions> {
        let users = db.expiring_keyspace("sessions")?;
        let by_user = db.expiring_keyspace("sessions by user")?;
        Ok(Sessions { db, users, by_user })
    }

    /// Starts a session. `id` must be unguessable.
    fn start(&self, id: &str, user: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_for_in(&self.users, id, user, LIFE)?;
        batch.put_for_in(&self.by_user, format!("{user}/{id}"), "", LIFE)?;
        self.db.write(batch)
    }

    /// Returns the user of a session, and lets it live for another hour. The transaction makes sure
    /// that a session which ends meanwhile is not started again.
    fn resume(&self, id: &str) -> Result<Option<String>> {
        self.db.transact(|tx| {
            let Some(user) = tx.keyspace(&self.users).get(id)? else { return Ok(None) };
            let user = String::from_utf8_lossy(&user).into_owned();
            tx.put_for_in(&self.users, id, &user, LIFE)?;
            tx.put_for_in(&self.by_user, format!("{user}/{id}"), "", LIFE)?;
            Ok(Some(user))
        })
    }

    /// Ends all sessions of a user. Returns how many there were.
    fn end_all(&self, user: &str) -> Result<usize> {
        let prefix = format!("{user}/");
        self.db.transact(|tx| {
            let listed = tx.keyspace(&self.by_user).prefix(&prefix)?.keys();
            let listed = listed.collect::<Result<Vec<_>>>()?;
            for key in &listed {
                tx.delete_in(&self.users, &key[prefix.len()..]);
                tx.delete_in(&self.by_user, key);
            }
            Ok(listed.len())
        })
    }
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    // A real program sets no clock, and so uses the system's clock.
    let minutes = Arc::new(AtomicU64::new(0));
    let now = minutes.clone();
    let clock = move || UNIX_EPOCH + Duration::from_secs(60 * now.load(Ordering::Relaxed));
    let options = Options::default().create_if_missing(true).clock(clock);
    let sessions = Sessions::open(Db::open(home.path().join("db"), options)?)?;

    sessions.start("81fa", "ann")?;
    sessions.start("c7d2", "ann")?;
    sessions.start("55e0", "bob")?;

    minutes.store(50, Ordering::Relaxed);
    assert_eq!(sessions.resume("81fa")?.as_deref(), Some("ann"));

    minutes.store(70, Ordering::Relaxed);
    for id in ["81fa", "c7d2", "55e0"] {
        match sessions.resume(id)? {
            Some(user) => println!("{id} is a session of {user}"),
            None => println!("{id} has expired"),
        }
    }
    let ended = sessions.end_all("ann")?;
    println!("{ended} session of ann ended");
    assert!(ended == 1 && sessions.users.is_empty()?);

    // Background compactions free the space of expired entries. This compaction frees it at once.
    sessions.users.compact_range(..)
}
