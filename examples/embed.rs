//! Opens a database, writes, reads and deletes: `cargo run --example embed [DIR]`. If no directory
//! is given, uses a temporary directory, which is removed at the end.

use minikv::{Db, Result, WriteOptions};

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let kept = std::env::args_os().nth(1);
    let dir = kept.as_ref().map_or(temporary.path().join("db"), Into::into);

    let db = Db::create(&dir)?;
    db.put("fruit/apple", "red or green")?;
    db.put("fruit/banana", "yellow")?;
    // Unsynced writes survive the end of the process; synced writes also survive a power loss.
    db.writing(WriteOptions::default().sync(true)).put("fruit/cherry", "dark red")?;
    db.delete("fruit/banana")?;

    for name in ["apple", "banana", "cherry"] {
        match db.get(format!("fruit/{name}"))? {
            Some(value) => println!("{name} is {}", String::from_utf8_lossy(&value)),
            None => println!("{name} is not here"),
        }
    }

    // Dropping the last handle also closes the database, but cannot report an error.
    db.close()?;
    match kept {
        Some(_) => println!("a LevelDB database is in {}", dir.display()),
        None => println!("to keep the database, name a directory for it"),
    }
    Ok(())
}
