//! Looks for records after a damaged one, in write-ahead logs and MANIFESTs.
//!
//! A record is written only when those before it that had to be synced are synced. So a later
//! record can show that the damaged one was complete once, and that no crash has torn it.

use std::io;
use std::path::{Path, PathBuf};

use minikv::BatchOp;
use minikv::files::{BatchRecord, FileName};
use minikv::fs::Fs;

use crate::store::home::Layout;
use crate::store::keys;

/// Size of a block of a log, and of the header of a record in it.
pub(super) const BLOCK_BYTES: u64 = 32 << 10;
pub(super) const HEADER_BYTES: usize = 7;

/// The types of fragments: a whole record, and the parts of one.
const FULL: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;

/// Size of the head of a batch, and the tag of a put in it.
const BATCH_HEAD_BYTES: usize = 12;
const PUT: u8 = 1;

/// Returns the checksum that a log stores as `masked`.
pub(super) fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// Returns whether records after `offset` in the write-ahead log or MANIFEST `path` show that
/// everything before `offset` was synced. `damaged` is the fragment before `offset`.
///
/// An edit of a MANIFEST and a write to a database with only the log are synced before the next
/// one. If the database has the state, too, whose writes are not synced, that is true of the writes
/// of entries, votes and log ids. Records that write nothing tell nothing: they begin a log, and
/// end one whose sync failed.
pub(super) fn show_sync(
    fs: &dyn Fs,
    path: &Path,
    offset: u64,
    damaged: &[u8],
    layout: Layout,
) -> io::Result<bool> {
    if !is_log(path) {
        return any_from(fs, path, offset, |edit, _| !edit.is_empty());
    }
    let mut is_synced = layout == Layout::Two || begins_with_log(damaged);
    let mut shows = |record: &[u8], is_whole: bool| {
        let Some(batch) = BatchRecord::parse(record).ok().filter(|batch| batch.count > 0) else {
            return false;
        };
        let is_shown = is_synced;
        is_synced |= is_whole && writes_log(&batch);
        is_shown
    };
    if any_from(fs, path, offset, &mut shows)? {
        return Ok(true);
    }
    for later in logs_after(fs, path)? {
        if any_from(fs, &later, 0, &mut shows)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_log(path: &Path) -> bool {
    number_of(path).is_some()
}

/// Returns the number of the write-ahead log `path`.
fn number_of(path: &Path) -> Option<u64> {
    match FileName::parse(path.file_name()?.to_str()?)? {
        FileName::Log(number) => Some(number),
        _ => None,
    }
}

/// Returns the write-ahead logs that follow the one at `path`, in order.
fn logs_after(fs: &dyn Fs, path: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = path.parent().unwrap_or(Path::new(""));
    let mut logs: Vec<PathBuf> = fs.list(dir)?.iter().map(|name| dir.join(name)).collect();
    logs.retain(|log| number_of(log) > number_of(path));
    logs.sort_unstable_by_key(|log| number_of(log));
    Ok(logs)
}

/// Returns whether the first write in a damaged fragment is that of an entry, a vote or a log id.
fn begins_with_log(damaged: &[u8]) -> bool {
    let Some((header, payload)) = damaged.split_at_checked(HEADER_BYTES) else { return false };
    let is_first = matches!(header[HEADER_BYTES - 1], FULL | FIRST);
    // A byte for the length of the key follows the tag: these keys are short.
    let key = payload.get(BATCH_HEAD_BYTES + 2..);
    is_first && payload.get(BATCH_HEAD_BYTES) == Some(&PUT) && key.is_some_and(is_of_log)
}

/// Returns whether a batch writes entries, votes or log ids. Deletions do not count: earlier
/// versions did not sync those of a purge.
fn writes_log(batch: &BatchRecord<'_>) -> bool {
    batch.operations().any(|op| matches!(op, Ok(BatchOp::Put { key, .. }) if is_of_log(key)))
}

/// Returns whether a key of the database belongs to the log: after a tag, the key has the length of
/// the keyspace's name, and the name.
fn is_of_log(key: &[u8]) -> bool {
    let Some((length, rest)) = key.strip_prefix(b"\xff\xfeks").and_then(|key| key.split_first())
    else {
        return false;
    };
    let name = rest.get(..usize::from(*length));
    [keys::LOG, keys::META].iter().any(|known| name == Some(known.as_bytes()))
}

/// Calls `shows` with each sound record that begins at `offset` or later, until it returns true.
/// Returns whether it did. The record may begin anywhere. It is given after each of its fragments,
/// with whether it is whole.
fn any_from(
    fs: &dyn Fs,
    path: &Path,
    mut offset: u64,
    mut shows: impl FnMut(&[u8], bool) -> bool,
) -> io::Result<bool> {
    let file = fs.open(path)?;
    let mut block = vec![0; BLOCK_BYTES as usize];
    let mut record: Option<Vec<u8>> = None;
    while let Some(from) = file.skip_hole(offset)? {
        if from > offset {
            record = None;
        }
        let at = from % BLOCK_BYTES;
        let read = file.read_at(&mut block, from - at)?;
        let mut rest = block[..read].get(at as usize..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        while rest.len() >= HEADER_BYTES {
            let Some((kind, payload)) = fragment(rest) else {
                (record, rest) = (None, &rest[1..]);
                continue;
            };
            rest = &rest[HEADER_BYTES + payload.len()..];
            record = if matches!(kind, FULL | FIRST) { Some(Vec::new()) } else { record };
            if let Some(record) = &mut record {
                record.extend_from_slice(payload);
            }
            let is_whole = matches!(kind, FULL | LAST);
            if record.as_ref().is_some_and(|record| shows(record, is_whole)) {
                return Ok(true);
            }
            record = record.filter(|_| !is_whole);
        }
        offset = from - at + BLOCK_BYTES;
    }
    Ok(false)
}

/// Returns the type and the payload of the sound fragment at the start of `bytes`, which end with
/// its block.
fn fragment(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let payload = rest.get(..usize::from(u16::from_le_bytes([header[4], header[5]])))?;
    let sum = || crc32c::crc32c_append(crc32c::crc32c(&header[6..]), payload);
    let is_sound = (FULL..=LAST).contains(&header[6]) && unmask(stored) == sum();
    is_sound.then_some((header[6], payload))
}
