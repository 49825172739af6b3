//! Bulk load: sorted entries become tables of the database at once.
//!
//! ```text
//! cargo run --release --example bulk_load
//! ```

use std::error::Error;
use std::time::Instant;

use minikv::bulk::TableWriter;
use minikv::{Db, Options, Readable};

const ENTRIES: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let options = Options::default().create_if_missing(true);
    let db = Db::open(home.path().join("db"), options.clone())?;
    db.put("0000000007", "written before")?;
    let before = db.snapshot();

    // The tables are written beside the database, on the same filesystem.
    let began = Instant::now();
    let mut writer = TableWriter::create(home.path().join("tables"), &options)?;
    for i in 0..ENTRIES {
        writer.put(format!("{i:010}"), format!("value of {i}"))?;
    }
    let tables = writer.finish()?;

    // The ingest is atomic: readers, and an open after a crash, see all of the tables or none of
    // them.
    let ingested = db.ingest(&tables)?;
    println!("{} entries in {} tables", ingested.entries, ingested.tables);
    eprintln!("in {:.2?}", began.elapsed());

    assert_eq!(db.get("0000000007")?.as_deref(), Some(&b"value of 7"[..]));
    assert_eq!(before.get("0000000007")?.as_deref(), Some(&b"written before"[..]));
    assert_eq!(before.iter().count(), 1);
    assert_eq!(db.iter().count(), ENTRIES as usize);
    Ok(())
}
