//! Transfers money in batches from several threads, while a snapshot keeps showing the original
//! balances: `cargo run --example batch_and_snapshot`.
//!
//! A batch is all or nothing, but it is not a transaction: nothing keeps another thread from
//! writing between the read of a balance and the batch that changes it. Two concurrent transfers
//! could both read the old balance, and one of them would be lost. So every read-modify-write of an
//! account here holds one mutex. (Only one process can have a database open for writing, so a mutex
//! within that process is enough.) A transaction needs no mutex: see `transactions.rs`.

use std::sync::Mutex;

use minikv::{Db, Readable, Result, Snapshot, WriteBatch};

const TRANSFERS: u64 = 250;

struct Bank {
    db: Db,
    /// Held from reading the balances until the new balances are written.
    accounts: Mutex<()>,
}

impl Bank {
    /// Moves `amount` between two accounts, unless the first account has less than `amount`.
    /// Returns whether the money was moved.
    fn transfer(&self, from: &str, to: &str, amount: u64) -> Result<bool> {
        let _held = self.accounts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = self.db.snapshot();
        let Some(left) = balance(&now, from)?.checked_sub(amount) else { return Ok(false) };
        let mut batch = WriteBatch::new();
        batch.put(from, left.to_le_bytes());
        batch.put(to, (balance(&now, to)? + amount).to_le_bytes());
        self.db.write(batch)?; // both or neither, even if the power fails in between
        Ok(true)
    }
}

fn balance(view: &Snapshot, account: &str) -> Result<u64> {
    let value = view.get(account)?.expect("both accounts exist");
    Ok(u64::from_le_bytes(value[..].try_into().expect("balances are eight bytes")))
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;
    db.put("alice", 1000_u64.to_le_bytes())?;
    db.put("bob", 0_u64.to_le_bytes())?;

    let before = db.snapshot();
    let bank = Bank { db, accounts: Mutex::new(()) };
    std::thread::scope(|scope| {
        let teller = || (0..TRANSFERS).try_for_each(|_| bank.transfer("alice", "bob", 1).map(drop));
        let tellers: Vec<_> = (0..4).map(|_| scope.spawn(teller)).collect();
        tellers.into_iter().try_for_each(|teller| teller.join().expect("no panic"))
    })?;

    let after = bank.db.snapshot();
    for (name, view) in [("before", &before), ("after", &after)] {
        println!("{name}: alice {}, bob {}", balance(view, "alice")?, balance(view, "bob")?);
    }
    assert_eq!(balance(&before, "alice")?, 1000);
    assert_eq!(balance(&after, "bob")?, 4 * TRANSFERS, "no transfer is lost");
    assert!(!bank.transfer("alice", "bob", 1)?, "there is nothing left");
    Ok(())
}
