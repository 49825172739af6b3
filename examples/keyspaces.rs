//! Keeps users and an index of their emails in two keyspaces: `cargo run --example keyspaces`.
//!
//! A batch or a transaction writes to both keyspaces at once, so that the index always matches the
//! users.

use minikv::{Db, FixedPrefix, Keyspace, Options, Readable, Result, WriteBatch};

/// The users by name, and the names by email.
struct Accounts {
    db: Db,
    users: Keyspace,
    emails: Keyspace,
}

impl Accounts {
    fn open(db: Db) -> Result<Accounts> {
        let (users, emails) = (db.keyspace("users")?, db.keyspace("emails")?);
        Ok(Accounts { db, users, emails })
    }

    /// Adds a user, unless the email already belongs to a user. Returns whether the user was added.
    fn add(&self, user: &str, email: &str) -> Result<bool> {
        self.db.transact(|tx| {
            if tx.keyspace(&self.emails).contains_key(email)? {
                return Ok(false);
            }
            tx.put_in(&self.emails, email, user);
            tx.put_in(&self.users, user, email);
            Ok(true)
        })
    }

    /// Removes a user and all emails of the user, in one step.
    fn remove(&self, user: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_in(&self.users, user);
        for entry in self.emails.iter() {
            let (email, owner) = entry?;
            if owner == user {
                batch.delete_in(&self.emails, email);
            }
        }
        self.db.write(batch)
    }
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    // Scans of users that share the first two letters skip tables without such users.
    let options = Options::default().filter_prefix_in("users", FixedPrefix::new(2));
    let db = Db::open(home.path().join("db"), options.create_if_missing(true))?;
    let accounts = Accounts::open(db.clone())?;

    assert!(accounts.add("ann", "ann@example.org")?);
    assert!(accounts.add("anton", "anton@example.org")?);
    assert!(!accounts.add("impostor", "ann@example.org")?);
    assert_eq!(accounts.users.prefix("an")?.count(), 2);

    // The snapshot shows all keyspaces as of one moment.
    let before = db.snapshot();
    accounts.remove("ann")?;
    assert!(!accounts.emails.contains_key("ann@example.org")?);
    assert!(before.keyspace("emails")?.contains_key("ann@example.org")?);

    for keyspace in db.keyspaces()? {
        println!("{}: {} entries", keyspace.name().escape_ascii(), keyspace.iter().count());
    }
    accounts.emails.clear()?;
    assert_eq!(db.keyspaces()?, [db.keyspace("users")?]);
    Ok(())
}
