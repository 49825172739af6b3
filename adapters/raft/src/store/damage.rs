//! Looks for damage in the files of a node before the node starts.
//!
//! A write to the log is synced before anybody relies on it. So a crash can only take the writes at
//! the end of the log that nobody waits for any more, and it leaves zeros or nothing in their
//! place. Everything else that is wrong with the log is damage: the node may have promised what is
//! gone, and must not start. This includes a log that ends before the entries that the state
//! contains.
//!
//! The state is not synced. A crash may leave any hole in the end of its write-ahead log, as damage
//! may, and neither does harm: the state goes back to the hole, and the node applies the entries
//! that follow again. Therefore the entries after the state must be in the log.

use std::path::Path;

use minikv::files::FileName;
use minikv::fs::Fs;
use minikv::{Corruption, Db, Options, ReadOnlyDb, Readable};
use openraft::LogId;

use crate::store::error::{Error, Result};
use crate::store::home::Layout;
use crate::store::keys;
use crate::store::later::{BLOCK_BYTES, HEADER_BYTES, show_sync, unmask};

/// The polynomial of CRC-32C, from its lowest to its highest coefficient.
const CRC32C: u32 = 0x82f6_3b78;
/// Smallest unit that a disk writes or loses.
const SECTOR_BYTES: u64 = 512;

/// Opens a database that contains the log of a node. Refuses a damaged one, without changing it.
pub(crate) fn open_strictly(
    fs: &dyn Fs,
    dir: &Path,
    options: &Options,
    layout: Layout,
) -> Result<Db> {
    let strict = options.clone().paranoid_checks(true);
    if let Err(error) = look(dir, strict.clone()) {
        return match &error {
            Error::Database(minikv::Error::Corruption(found)) if is_torn(fs, found, layout)? => {
                Ok(Db::open(dir, options.clone())?)
            }
            Error::Database(_) => Err(Error::Damaged { what: error.to_string() }),
            _ => Err(error),
        };
    }
    Db::open(dir, strict).map_err(Error::damage)
}

/// Opens a database for reading. Refuses one whose write-ahead logs have lost records.
fn look(dir: &Path, options: Options) -> Result<ReadOnlyDb> {
    let db = Db::open_read_only(dir, options)?;
    match db.recovery().lost.first() {
        None => Ok(db),
        Some(lost) => {
            let (path, offset) = (lost.path.display(), lost.offset);
            Err(Error::Damaged { what: format!("{path} at offset {offset}: {}", lost.why) })
        }
    }
}

/// Returns whether a crash explains the damage to a write-ahead log or a MANIFEST, which has the
/// same records: a sector of the damaged record is still zeros, as the file was before the record
/// was written, and no later record shows that this one was synced. If the record had been synced,
/// all of its sectors would have been written. They may be zeros, too, if a value has many, so
/// damage that one flipped bit explains is never taken for a crash.
fn is_torn(fs: &dyn Fs, damage: &Corruption, layout: Layout) -> Result<bool> {
    let (Some(path), Some(offset)) = (&damage.path, damage.offset) else { return Ok(false) };
    let is_log = matches!(
        path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse),
        Some(FileName::Log(_) | FileName::Manifest(_))
    );
    if !is_log || damage.what.contains("length") {
        return Ok(false);
    }
    let read = || {
        let mut block = vec![0; (BLOCK_BYTES - offset % BLOCK_BYTES) as usize];
        let read = fs.open(path)?.read_at(&mut block, offset)?;
        block.truncate(read);
        Ok(block)
    };
    let block = read().map_err(Error::file("read", path))?;
    let length =
        block.get(4..6).map_or(0, |bytes| usize::from(bytes[0]) | usize::from(bytes[1]) << 8);
    if offset % BLOCK_BYTES + (HEADER_BYTES + length) as u64 > BLOCK_BYTES {
        // No writer writes such a length, and zeros in its place would make it shorter.
        return Ok(false);
    }
    if is_one_bit(&block, length) {
        return Ok(false);
    }
    let record = &block[..block.len().min(HEADER_BYTES + length)];
    let to_sector = (SECTOR_BYTES - offset % SECTOR_BYTES) as usize;
    let (first, rest) = record.split_at(record.len().min(to_sector));
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    if !is_zero(first) && !rest.chunks(SECTOR_BYTES as usize).any(is_zero) {
        return Ok(false);
    }
    let end = offset + (HEADER_BYTES + length) as u64;
    let is_synced = show_sync(fs, path, end, record, layout);
    Ok(!is_synced.map_err(Error::file("read", path))?)
}

/// Returns whether one flipped bit explains why the record at the start of `block` does not have
/// its checksum. Such a record may have sectors of zeros, too: those of a value.
fn is_one_bit(block: &[u8], length: usize) -> bool {
    let Some((header, rest)) = block.split_at_checked(HEADER_BYTES - 1) else { return false };
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let sum = |length: usize| rest.get(..=length).map(crc32c::crc32c);
    let Some(found) = sum(length) else { return false };
    let in_checksum = || (0..32).any(|bit| unmask(stored ^ 1 << bit) == found);
    let in_length = || (0..16).any(|bit| sum(length ^ 1 << bit) == Some(unmask(stored)));
    // Checksums are linear: a flipped bit changes the checksum by a number that depends only on the
    // distance of the bit from the end.
    let difference = unmask(stored) ^ found;
    let mut change = 1_u32;
    let mut in_content = || {
        (0..8 * (length + 1)).any(|_| {
            change = change >> 1 ^ (if change & 1 == 1 { CRC32C } else { 0 });
            change == difference
        })
    };
    in_checksum() || in_length() || in_content()
}

/// Opens a copy of a database for reading, and returns the last entry in the state of the copy.
pub(crate) fn last_applied(dir: &Path, options: &Options) -> Result<Option<LogId<u64>>> {
    let copy = look(dir, options.clone().paranoid_checks(true))?;
    let applied = copy.keyspace(keys::STATE)?.get(keys::APPLIED)?;
    applied.map(|bytes| keys::decode_log_id(keys::APPLIED, &bytes)).transpose()
}
