//! A target for a whole directory: opens it read-only, verifies it, opens it for writing, and reads
//! it in every way.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use minikv::{Db, Error, Options, ReadOnlyDb, ReadOptions, Readable, Result, WriteOptions, verify};

use crate::files::{self, DIR};

/// Keys and values of a database.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads all entries forward and backward, looks up some of them by key, and returns the entries.
/// If the database is sound, both scans must agree: `verify` must detect keys that are out of order
/// even if the checksums are correct.
pub fn read_all(db: &impl Readable, is_sound: bool) -> Result<Entries> {
    let forward: Vec<_> = db.iter().collect::<Result<_>>()?;
    let backward: Vec<_> = db.iter().rev().collect::<Result<_>>()?;
    // Only keys are compared: two tables may hold the same version of a key with different values,
    // which `verify` does not notice.
    let keys = |(key, _): &(Bytes, Bytes)| key.clone();
    let is_same = forward.iter().map(keys).eq(backward.iter().rev().map(keys));
    assert!(is_same || !is_sound, "forward and backward are the same");
    for (key, _) in forward.iter().take(50) {
        db.get(key)?;
    }
    Ok(forward.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

/// Looks up entries with and without filters.
pub fn check_gets(db: &ReadOnlyDb, entries: &Entries) {
    for use_filter in [true, false] {
        let options = ReadOptions::default().use_filter(use_filter);
        for key in entries.keys().take(100) {
            db.reading(options).get(key).unwrap();
        }
    }
}

/// Checks that lookups agree with a scan. Tables of an input may have correct checksums but wrong
/// sequence numbers, with an older version above a newer one. Lookups therefore agree with a scan
/// only after a compaction has written all tables.
pub fn check_compacted(db: &Db, entries: &Entries) {
    for (key, value) in entries.iter().take(100) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
    }
}

/// Asserts that an error is of a kind that damage may cause.
fn expect_damage(error: &Error) {
    let is_told = match error {
        Error::Corruption(_) | Error::Unsupported { .. } | Error::DatabaseMissing { .. } => true,
        Error::ReadOnly { reason } => {
            expect_damage(reason);
            true
        }
        _ => false,
    };
    assert!(is_told, "{error}");
}

/// Returns whether an error says that the sequence numbers are used up. A damaged database may
/// claim the highest possible sequence number; it can then be read, but not written.
pub fn is_used_up(error: &Error) -> bool {
    matches!(error, Error::InvalidArgument { what } if what.contains("used up its sequence"))
}

fn options(fs: &minikv::fs::MemFs) -> Options {
    files::options(fs).block_cache_bytes(1 << 20)
}

/// Opens the database, reads, writes and compacts.
fn write(options: &Options, reuse_logs: bool, is_sound: bool) -> Result<()> {
    let db = Db::open(DIR, options.clone().reuse_logs(reuse_logs))?;
    let before = read_all(&db, is_sound);
    db.writing(WriteOptions::default().sync(true)).put("new", "1")?;
    db.delete("newer")?;
    db.flush()?;
    assert_eq!(db.get("new")?.as_deref(), Some(&b"1"[..]));
    db.compact_range(..)?;
    let after = read_all(&db, is_sound)?;
    if let Ok(mut before) = before
        && is_sound
    {
        check_compacted(&db, &after);
        before.insert(b"new".to_vec(), b"1".to_vec());
        before.remove(&b"newer"[..]);
        assert!(before == after, "a compaction changes nothing");
    }
    db.close()?;
    let db = Db::open(DIR, options.clone())?;
    assert!(read_all(&db, is_sound)? == after, "nor does opening it again");
    Ok(())
}

fn read(db: &ReadOnlyDb, is_sound: bool) -> Result<Entries> {
    let entries = read_all(db, is_sound)?;
    // Keys that may be absent.
    for key in [&b""[..], b"k", b"k1/1", &[0xff; 9]] {
        db.get(key)?;
        db.explain(key)?;
        db.approximate_size(key..)?;
    }
    db.prefix("k1")?.try_for_each(|entry| entry.map(drop))?;
    Ok(entries)
}

/// Loads the files of a database. If `verify` finds no damage in these files, it must be possible
/// to open the database and read it, by key and in both directions.
pub fn directory(data: &[u8]) {
    let fs = files::load(data);
    let before = files::contents(&fs);
    let options = options(&fs);
    let report = verify(DIR, &options);
    let is_sound = match &report {
        Ok(report) => report.is_sound(),
        Err(error) => {
            expect_damage(error);
            false
        }
    };
    let found =
        Db::open_read_only(DIR, options.clone()).and_then(|db| Ok((read(&db, is_sound)?, db)));
    match found {
        Ok((entries, db)) if is_sound => check_gets(&db, &entries),
        Ok(_) => {}
        Err(error) => {
            expect_damage(&error);
            assert!(!is_sound, "verify finds nothing, and reading does: {error}");
        }
    }
    assert!(files::contents(&fs) == before, "reading changes nothing");
    assert!(!minikv::fs::Fs::exists(&fs, Path::new("/db/LOCK")).unwrap());
    let reuse_logs = data.len().is_multiple_of(2);
    if let Err(error) = write(&options, reuse_logs, is_sound)
        && !is_used_up(&error)
    {
        expect_damage(&error);
        assert!(!is_sound, "verify finds nothing, and writing does: {error}");
    }
}
