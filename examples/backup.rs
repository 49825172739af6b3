//! A backup of a database in use, and back from it: `cargo run --example backup`.
//!
//! A checkpoint is a database of its own. On the same filesystem it takes next to no space: table
//! files never change, so they get a second name. A backup on another disk is a copy of that
//! directory.

use minikv::{Db, Options, Result};

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (dir, copy) = (home.path().join("db"), home.path().join("backup"));
    let db = Db::open(&dir, Options::default().create_if_missing(true))?;
    for number in 0..1000 {
        db.put(format!("note/{number:04}"), "precious")?;
    }
    db.checkpoint(&copy)?; // reads and writes go on meanwhile
    for entry in db.prefix("note/")? {
        db.delete(entry?.0)?; // a mistake
    }
    db.close()?;

    // A backup that was never read is none.
    let report = minikv::verify(&copy, &Options::default())?;
    assert!(report.is_sound(), "{report:?}");
    let restored = Db::open(&copy, Options::default())?;
    println!("{} notes are back", restored.prefix("note/")?.count());
    assert!(Db::open(&dir, Options::default())?.is_empty()?);
    Ok(())
}
