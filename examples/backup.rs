//! Backs up a database while it is in use, and restores it: `cargo run --example backup`.
//!
//! A checkpoint is a database of its own. On the same filesystem it takes almost no space: table
//! files never change, so the copy links to them. For a backup on another disk, copy the directory
//! of the checkpoint.

use minikv::{Db, Options, Result};

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (dir, copy) = (home.path().join("db"), home.path().join("backup"));
    let db = Db::open(&dir, Options::default().create_if_missing(true))?;
    for number in 0..1000 {
        db.put(format!("note/{number:04}"), "precious")?;
    }
    db.checkpoint(&copy)?; // other threads may read and write meanwhile
    for entry in db.prefix("note/")? {
        db.delete(entry?.0)?; // a mistake
    }
    db.close()?;

    // Read the backup before you rely on it.
    let report = minikv::verify(&copy, &Options::default())?;
    assert!(report.is_sound(), "{report:?}");
    let restored = Db::open(&copy, Options::default())?;
    println!("{} notes are back", restored.prefix("note/")?.count());
    assert!(Db::open(&dir, Options::default())?.is_empty()?);
    Ok(())
}
