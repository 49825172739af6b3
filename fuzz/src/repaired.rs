//! A target that repairs a damaged directory.

use minikv::fs::MemFs;
use minikv::{Db, Error, RepairOptions, verify};

use crate::database::{check_compacted, check_gets, is_used_up, read_all};
use crate::files::{self, DIR};

/// Returns whether repair may refuse with this error: there is no database, or the database has a
/// feature that this build does not know.
fn may_refuse(error: &Error) -> bool {
    matches!(error, Error::Unsupported { .. } | Error::DatabaseMissing { .. })
}

/// Repairs the files of a database. A dry run must change nothing and return the same report as the
/// repair. Afterwards the database must open, verify without faults, be readable and writable, and
/// need no further repair.
pub fn repair(data: &[u8]) {
    let fs = files::load(data);
    let before = files::contents(&fs);
    let options = files::options(&fs).block_cache_bytes(1 << 20);
    let dry = minikv::repair(DIR, &options, RepairOptions::default().dry_run(true));
    assert!(files::contents(&fs) == before, "a dry run changes nothing");
    let report = match minikv::repair(DIR, &options, RepairOptions::default()) {
        Ok(report) => report,
        Err(error) => {
            assert!(may_refuse(&error), "{error}");
            return;
        }
    };
    let dry = dry.expect("a dry run does what a repair does");
    assert_eq!((dry.fault_count, dry.new_tables), (report.fault_count, report.new_tables.clone()));
    assert!(!report.healthy || files::contents(&fs) == before, "nothing wrong, nothing changed");

    let verified = verify(DIR, &options).unwrap();
    assert!(verified.is_sound(), "after a repair: {:?}", verified.faults);
    let db = Db::open_read_only(DIR, options.clone()).unwrap();
    let entries = read_all(&db, true).unwrap();
    check_gets(&db, &entries);
    drop(db);
    let again = minikv::repair(DIR, &options, RepairOptions::default()).unwrap();
    assert!(again.healthy, "after a repair: {:?}", again.faults);
    write(&fs, entries);
}

fn write(fs: &MemFs, mut entries: crate::database::Entries) {
    let db = Db::open(DIR, files::options(fs)).unwrap();
    assert!(read_all(&db, true).unwrap() == entries, "a writer reads the same");
    assert!(db.recovery().lost.is_empty(), "{:?}", db.recovery().lost);
    if let Err(error) = db.put("new", "1") {
        assert!(is_used_up(&error), "{error}");
        return;
    }
    entries.insert(b"new".to_vec(), b"1".to_vec());
    db.compact_range(..).unwrap();
    assert!(read_all(&db, true).unwrap() == entries, "a compaction changes nothing");
    check_compacted(&db, &entries);
}
