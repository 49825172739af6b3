//! Checks of a recovered database: its reads must agree with each other, its files must be exactly
//! the files that it needs, and no file number may have been used twice.

use std::collections::BTreeSet;
use std::path::Path;

use minikv::files::FileName;
use minikv::follow::Changes;
use minikv::fs::Fs;
use minikv::fs::sim::{CrashPlan, OpKind, SimFs};
use minikv::{BatchOp, Db, Error, Keyspace, Options, Readable, WriteOptions, files};

use crate::entries::{END, EXPIRING_TAG, NEVER, expiring_prefix, expiry_of, keyspace_prefix};
use crate::model::{Entries, Op, hash_of};
use crate::workload::{DIR, Kind};

/// Reads every entry by iteration in both directions and by get, while the clock shows `now`.
/// Returns an error if the results differ.
pub fn read_all_at(now: u64, db: &Db) -> Result<Entries, String> {
    let mut forward = Vec::new();
    for entry in db.iter() {
        forward.push(entry.map_err(|error| format!("iterating forward: {error}"))?);
    }
    let mut backward = Vec::with_capacity(forward.len());
    for entry in db.iter().rev() {
        backward.push(entry.map_err(|error| format!("iterating backward: {error}"))?);
    }
    backward.reverse();
    if forward != backward {
        return Err("forward and backward iteration differ".to_owned());
    }
    for (key, value) in &forward {
        let got = db.get(key).map_err(|error| format!("get: {error}"))?;
        if got.as_ref() != Some(value) {
            return Err(format!("get and iteration differ about {}", key.escape_ascii()));
        }
    }
    let entries = forward.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    check_keyspaces(now, db, &entries).map_err(|error| format!("keyspaces: {error}"))?;
    Ok(entries)
}

/// Reads every entry at the time [`END`].
fn read_all(db: &Db) -> Result<Entries, String> {
    read_all_at(END, db)
}

/// Checks that each keyspace contains exactly the entries whose keys start with the keyspace's
/// prefix, except expired entries.
fn check_keyspaces(now: u64, db: &Db, entries: &Entries) -> minikv::Result<()> {
    let mut within = 0;
    let (expiring, ordinary): (Vec<_>, Vec<_>) =
        db.keyspaces()?.into_iter().partition(Keyspace::is_expiring);
    for keyspace in ordinary {
        let name = String::from_utf8(keyspace.name().to_vec()).expect("a name that is text");
        for entry in keyspace.iter() {
            let (key, value) = entry?;
            let key = [&keyspace_prefix(&name), &key[..]].concat();
            assert_eq!(entries.get(&key).map(Vec::as_slice), Some(&value[..]), "{key:?}");
            within += 1;
        }
    }
    assert_eq!(within, entries.keys().filter(|key| key.starts_with(b"\xff\xfeks")).count());
    let mut alive = 0;
    for keyspace in expiring {
        let name = String::from_utf8(keyspace.name().to_vec()).expect("a name that is text");
        for entry in keyspace.iter() {
            let (key, value) = entry?;
            let key = [&expiring_prefix(&name), &key[..]].concat();
            let stored = entries.get(&key).expect("an entry of the database");
            assert_eq!(stored[..stored.len() - 8], value, "{key:?}");
            assert!(expiry_of(stored) > now, "{key:?} has expired");
            alive += 1;
        }
    }
    let expiring = entries.iter().filter(|(key, _)| key.starts_with(EXPIRING_TAG));
    assert_eq!(alive, expiring.filter(|(_, stored)| expiry_of(stored) > now).count());
    Ok(())
}

/// Checks that gets find exactly the keys that iteration showed.
fn check_absent(db: &Db, entries: &Entries, keys: usize) -> Result<(), String> {
    for key in (0..keys.min(60)).map(|key| format!("key{key:04}").into_bytes()) {
        let is_there = entries.contains_key(&key);
        let got = db.get(&key).map_err(|error| format!("get: {error}"))?;
        if got.is_some() != is_there {
            return Err(format!("get and iteration differ about {}", key.escape_ascii()));
        }
    }
    Ok(())
}

fn names(fs: &SimFs) -> BTreeSet<String> {
    fs.list(Path::new(DIR)).unwrap_or_default().into_iter().collect()
}

/// Checks that the directory holds every table in use, no other table, no old MANIFEST, no
/// temporary file, and at most `kept_bytes` of logs that an open does not replay.
pub fn check_files(fs: &SimFs, mut kept_bytes: u64) -> Result<(), String> {
    let recovered = files::recover_manifest(fs, Path::new(DIR), "leveldb.BytewiseComparator")
        .map_err(|error| format!("the MANIFEST: {error}"))?;
    let tables: BTreeSet<u64> = recovered.edit.new_files.iter().map(|file| file.number).collect();
    let mut found = BTreeSet::new();
    for name in names(fs) {
        let needed = match FileName::parse(&name) {
            Some(FileName::Table { number, .. }) => {
                found.insert(number) && tables.contains(&number)
            }
            Some(FileName::Log(number)) if number < recovered.log_number => {
                let bytes = fs.len(&Path::new(DIR).join(&name)).unwrap();
                let fits = bytes <= kept_bytes;
                kept_bytes = kept_bytes.saturating_sub(bytes);
                fits
            }
            Some(FileName::Log(_)) => true,
            Some(FileName::Manifest(number)) => number == recovered.manifest_number,
            Some(FileName::Temp(_)) => false,
            Some(_) => true,
            None => name == "lost",
        };
        if !needed {
            return Err(format!("{name} is there, and nothing needs it"));
        }
    }
    match tables.difference(&found).next() {
        Some(missing) => Err(format!("table {missing} is named and not there")),
        None => Ok(()),
    }
}

/// Checks that no file was created with a number that another file had before.
pub fn check_numbers(fs: &SimFs, before: &BTreeSet<String>) -> Result<(), String> {
    let number_of = |name: &str| match FileName::parse(name) {
        Some(FileName::Temp(_)) | None => None,
        Some(name) => name.number(),
    };
    let mut taken: BTreeSet<u64> = before.iter().filter_map(|name| number_of(name)).collect();
    for entry in fs.journal() {
        let path = match entry.kind {
            OpKind::Create => &entry.path,
            OpKind::HardLink => entry.to.as_ref().unwrap_or(&entry.path),
            _ => continue,
        };
        if path.parent() != Some(Path::new(DIR)) {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        // If the creation of the database did not finish, its MANIFEST is created again with the
        // same number.
        if let Some(number) = number_of(name)
            && !taken.insert(number)
            && name != "MANIFEST-000001"
        {
            return Err(format!("{entry}: the number was taken"));
        }
    }
    Ok(())
}

/// Checks that exactly `entries` survive a loss of power in which no unsynced change survives.
fn check_durable(
    fs: &SimFs,
    options: &dyn Fn(&SimFs) -> Options,
    entries: &Entries,
    what: &str,
) -> Result<(), String> {
    let left = fs.crash_image(&CrashPlan::strict());
    let db = Db::open(DIR, options(&left)).map_err(|error| format!("open {what}: {error}"))?;
    match hash_of(&read_all(&db)?) == hash_of(entries) {
        true => Ok(()),
        false => Err(format!("what was {what} after recovery did not survive a loss of power")),
    }
}

/// Checks that `changes` are the operations of `ops` after `since`, in order. Operation `ops[i]`
/// has the sequence number `i + 1`. Returns false if changes are lost.
pub fn changes(changes: Changes, since: u64, ops: &[&Op]) -> Result<bool, String> {
    let mut next = None;
    for batch in changes {
        let batch = match batch {
            Err(Error::ChangesLost { .. }) => return Ok(false),
            batch => batch.map_err(|error| format!("changes after {since}: {error}"))?,
        };
        let first = batch.sequence();
        if first > since + 1 && next.is_none() || next.is_some_and(|next| next != first) {
            return Err(format!("changes after {since}: {first} comes after a gap"));
        }
        for (operation, at) in batch.iter().zip(first as usize - 1..) {
            let (key, value) = match operation.map_err(|error| error.to_string())? {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            };
            let is_it = |op: &&Op| op.0 == key && op.1.as_deref() == value;
            if !ops.get(at).is_some_and(is_it) {
                return Err(format!("changes after {since}: {} is another one", at + 1));
            }
        }
        next = Some(first + batch.len() as u64);
    }
    match next.unwrap_or(since + 1) == ops.len() as u64 + 1 {
        true => Ok(true),
        false => Err(format!("changes after {since} end before {}", ops.len())),
    }
}

/// Opens the files that a crash left, checks them, and returns the hash of the entries.
///
/// With `deep`, also reopens the database, writes to it and checks its files.
pub fn recover(
    image: &SimFs,
    options: &dyn Fn(&SimFs) -> Options,
    kind: &Kind,
    deep: bool,
) -> Result<u64, String> {
    let before = names(image);
    if deep {
        image.record_history();
    }
    let db = Db::open(DIR, options(image)).map_err(|error| format!("open: {error}"))?;
    let entries = read_all(&db)?;
    check_absent(&db, &entries, kind.keys())?;
    if !deep {
        return Ok(hash_of(&entries));
    }
    drop(db);
    let db = Db::open(DIR, options(image)).map_err(|error| format!("open again: {error}"))?;
    if hash_of(&read_all(&db)?) != hash_of(&entries) {
        return Err("opened again it holds something else".to_owned());
    }
    // New writes must hide everything written before them.
    let mut after = entries.clone();
    let overwritten: Vec<_> = entries.keys().step_by(7).cloned().collect();
    for key in overwritten.into_iter().chain([b"a key of its own".to_vec()]) {
        let sync = WriteOptions::default().sync(true);
        let mut value = b"new".to_vec();
        if key.starts_with(EXPIRING_TAG) {
            value.extend(NEVER.to_le_bytes());
        }
        db.writing(sync).put(&key, &value).map_err(|error| format!("put: {error}"))?;
        after.insert(key, value);
    }
    check_durable(image, options, &after, "synced")?;
    db.wait_idle().map_err(|error| format!("wait_idle: {error}"))?;
    if hash_of(&read_all(&db)?) != hash_of(&after) {
        return Err("what was written after recovery is not what is read".to_owned());
    }
    db.close().map_err(|error| format!("close: {error}"))?;
    check_durable(image, options, &after, "closed")?;
    check_files(image, kind.keep_logs_bytes)?;
    check_numbers(image, &before)?;
    let db = Db::open(DIR, options(image)).map_err(|error| format!("open at last: {error}"))?;
    if hash_of(&read_all(&db)?) != hash_of(&after) {
        return Err("what was written after recovery is not there at last".to_owned());
    }
    Ok(hash_of(&entries))
}
