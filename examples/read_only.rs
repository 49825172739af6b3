//! A reader beside a writer: `cargo run --example read_only`.
//!
//! `Db::open_read_only` takes no lock and changes nothing in the directory, so it works on a
//! read-only medium, and while another process has the database open. It shows the database as it
//! was when it was opened; open it again, or refresh it, to see later writes.

use minikv::{Db, Options, Readable, Result};

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("db");
    let writer = Db::create(&dir)?;
    writer.put("day/1", "sunny")?;

    // The reader is usually in another process.
    let reader = Db::open_read_only(&dir, Options::default())?;
    writer.put("day/2", "rain")?;
    println!("the reader sees {} days", reader.prefix("day/")?.count());
    assert!(!reader.contains_key("day/2")?);

    let reader = Db::open_read_only(&dir, Options::default())?;
    println!("opened again, it sees {}", reader.prefix("day/")?.count());
    assert!(reader.contains_key("day/2")?);
    Ok(())
}
