//! Handles errors when the disk fills up and later has space again:
//! `cargo run --example errors`.
//!
//! The disk here is `SimFs`, which fails on demand.

use std::io::ErrorKind;

use minikv::fs::SimFs;
use minikv::fs::sim::Fault;
use minikv::{Db, Error, HealthState, Options, Readable, Result};

fn main() -> Result<()> {
    let disk = SimFs::new(1);
    let options = || Options::default().fs(disk.clone());

    // The variant of an error gives its kind; the text of the error says what happened to which
    // file.
    match Db::open("/db", options()) {
        Err(error @ Error::DatabaseMissing { .. }) => println!("{error}"),
        other => panic!("{other:?}"),
    }
    let db = Db::open("/db", options().create_if_missing(true))?;
    db.put("kept", "1")?;

    disk.inject(Fault::no_space().path("*.log"));
    let error = db.put("failed", "1").expect_err("the disk is full");
    assert_eq!(error.io_kind(), Some(ErrorKind::StorageFull));
    println!("{error}");

    // The database is now read-only: the log may end in half a record, so nothing may follow it.
    assert_eq!(db.health().state, HealthState::ReadOnly);
    match db.put("refused", "1") {
        Err(Error::ReadOnly { reason }) => println!("refused, since: {reason}"),
        other => panic!("{other:?}"),
    }
    assert!(db.contains_key("kept")?);

    // Once there is space, `resume` writes all acknowledged entries to new files. It does not
    // repeat the write that failed.
    disk.clear_faults();
    db.resume()?;
    db.put("later", "1")?;
    assert!(db.contains_key("kept")? && !db.contains_key("failed")?);
    println!("writes go on: {:?}", db.health().state);
    db.close()
}
