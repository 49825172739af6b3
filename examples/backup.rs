//! Backs up a database while it is in use, and restores it: `cargo run --example backup`.
//!
//! A folder holds several backups. Tables never change, so a later backup copies only tables that
//! the folder does not contain yet.

use minikv::backup::Backups;
use minikv::{Db, Options, Readable, Result};

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (dir, folder) = (home.path().join("db"), home.path().join("backups"));
    let db = Db::create(&dir)?;
    for number in 0..1000 {
        db.put(format!("note/{number:04}"), "precious")?;
    }
    let made = db.backup(&folder)?; // other threads may read and write meanwhile
    println!("backup {} has {} bytes", made.number, made.file_bytes);
    for entry in db.prefix("note/")? {
        db.delete(entry?.0)?; // a mistake
    }
    db.backup(&folder)?; // the mistake is in this backup, too
    db.close()?;

    let backups = Backups::open(&folder, &Options::default())?;
    assert!(backups.verify(|_| {})?.is_empty(), "a backup is damaged");
    let copy = home.path().join("restored");
    backups.restore(Some(made.number), &copy, |_| {})?;
    let restored = Db::open(&copy, Options::default())?;
    println!("{} notes are back", restored.prefix("note/")?.count());
    assert!(Db::open(&dir, Options::default())?.is_empty()?);
    backups.keep(1)?; // only the latest
    Ok(())
}
