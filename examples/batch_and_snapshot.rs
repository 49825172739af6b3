//! Moves money in one batch, while a snapshot goes on seeing the balances before:
//! `cargo run --example batch_and_snapshot`.

use minikv::{Db, Options, Result, Snapshot, WriteBatch};

fn balance(view: &Snapshot, account: &str) -> Result<u64> {
    let value = view.get(account)?.expect("both accounts exist");
    Ok(u64::from_le_bytes(value[..].try_into().expect("balances are eight bytes")))
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(home.path().join("db"), Options::default().create_if_missing(true))?;
    db.put("alice", 100_u64.to_le_bytes())?;
    db.put("bob", 0_u64.to_le_bytes())?;

    let before = db.snapshot();
    let (alice, bob) = (balance(&before, "alice")?, balance(&before, "bob")?);
    let mut transfer = WriteBatch::new();
    transfer.put("alice", (alice - 30).to_le_bytes());
    transfer.put("bob", (bob + 30).to_le_bytes());
    db.write(transfer)?; // both or neither, even if the power fails in between

    let after = db.snapshot();
    for (name, view) in [("before", &before), ("after", &after)] {
        println!("{name}: alice {}, bob {}", balance(view, "alice")?, balance(view, "bob")?);
    }
    assert_eq!(balance(&before, "alice")? + balance(&before, "bob")?, 100);
    assert_eq!(balance(&after, "alice")? + balance(&after, "bob")?, 100);
    Ok(())
}
