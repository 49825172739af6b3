use std::fs;
use std::path::Path;

use super::*;
use crate::format::record::{HEADER_BYTES, RecordHeader, RecordType};

fn log(dir: &Path) -> MappedLog {
    let mut options = super::super::system::not_through_links();
    let options = options.read(true).write(true).create(true);
    MappedLog::new(options.open(dir.join("log")).unwrap())
}

impl MappedLog {
    fn is_mapped(&self) -> bool {
        matches!(self.mode, Mode::Mapped(_))
    }

    fn is_unmappable(&self) -> bool {
        matches!(self.mode, Mode::Unmappable)
    }
}

/// Returns a record of `size` bytes including headers, or slightly more, encoded as `LogWriter`
/// would encode it at the end of a log of `len` bytes.
fn record(len: u64, size: usize, seed: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = size.saturating_sub(HEADER_BYTES);
    let mut is_first = true;
    loop {
        let room = BLOCK_BYTES - (len as usize + bytes.len()) % BLOCK_BYTES;
        if room < HEADER_BYTES {
            bytes.resize(bytes.len() + room, 0);
            continue;
        }
        let part = left.min(room - HEADER_BYTES);
        left -= part;
        let payload: Vec<u8> = (0..part).map(|i| (i * 31 + seed) as u8 | 1).collect();
        let record_type = RecordType::of_fragment(is_first, left == 0);
        bytes.extend_from_slice(&RecordHeader::new(record_type, &payload).encode());
        bytes.extend_from_slice(&payload);
        is_first = false;
        if left == 0 {
            return bytes;
        }
    }
}

/// Checks the file that would be left if the process were killed now: the bytes written, and
/// perhaps zeros up to the end of a block. Returns the number of zeros.
fn zeros_behind(path: &Path, written: &[u8]) -> usize {
    let left = fs::read(path).unwrap();
    assert!(left.starts_with(written));
    assert!(left[written.len()..].iter().all(|&byte| byte == 0));
    let zeros = left.len() - written.len();
    assert!(zeros == 0 || left.len().is_multiple_of(BLOCK_BYTES), "{} bytes", left.len());
    zeros
}

#[test]
#[cfg(target_os = "linux")]
fn a_stray_write_that_runs_up_to_a_window_ends_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = log(dir.path());
    let mut len = 0;
    let mut windows = std::collections::BTreeSet::new();
    while len < 3 << 20 {
        let bytes = record(len, 200, len as usize);
        log.write(&bytes).unwrap();
        len += bytes.len() as u64;
        let Mode::Mapped(window) = &log.mode else { continue };
        if windows.insert(window.start) {
            // Lines of the form `7f0000000000-7f0000100000 ---s ...`.
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            let start = window.map.as_ptr() as usize;
            let rights = |at: usize| {
                maps.lines().find_map(|line| {
                    let (addresses, rest) = line.split_once(' ')?;
                    let (from, to) = addresses.split_once('-')?;
                    let [from, to] = [from, to].map(|at| usize::from_str_radix(at, 16).unwrap());
                    (from..to).contains(&at).then(|| rest[..4].to_string())
                })
            };
            let page = page_bytes() as usize;
            assert_eq!(rights(start).as_deref(), Some("---s"), "{maps}");
            assert_eq!(rights(start + page).as_deref(), Some("rw-s"), "{maps}");
        }
    }
    assert!(log.is_unmappable() || windows.len() >= 4, "{windows:?}");
}

/// Checks that the file holds all records, followed only by zeros until the log is dropped. Writes
/// many small records, which are stored in a window, and in between some large records, which are
/// not. Some records cross windows or are larger than a window.
#[test]
fn a_mapped_log_has_its_records_and_then_zeros_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = log(dir.path());
    let mut expected = Vec::new();
    let small = [8usize, 7, 100, 1500, 10, 2000, 133, 7, 8, 1800, 90];
    let large = [60_000usize, 7, 5000, 300_000, 9, 2_500_000, 90];
    let mut mapped = [0; 2];
    for round in 0..8000 {
        let is_large = round % 4000 >= 3950;
        let size = if is_large { large[round % 7] } else { small[round % 11] };
        let piece = record(expected.len() as u64, size, round);
        log.write(&piece).unwrap();
        expected.extend_from_slice(&piece);
        mapped[usize::from(is_large)] += usize::from(log.is_mapped());
        if round % 1000 == 999 {
            log.sync().unwrap();
            zeros_behind(&path, &expected);
        }
    }
    assert!(
        log.is_unmappable() || (mapped[0] > 5000 && mapped[1] < 20),
        "{mapped:?} left a window"
    );
    drop(log);
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn a_log_that_is_synced_often_is_written_ahead_of_its_end_and_then_mapped_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = log(dir.path());
    let mut expected = Vec::new();
    let mut seen = [0; 2];
    for round in 0..3000 {
        let piece = record(expected.len() as u64, 1000, round);
        log.write(&piece).unwrap();
        expected.extend_from_slice(&piece);
        // The log is not synced at all in rounds 1000 to 1999.
        if !(1000..2000).contains(&round) {
            log.sync().unwrap();
        }
        if round % 100 == 99 {
            let ahead = zeros_behind(&path, &expected) > 0;
            seen[usize::from(log.is_mapped())] += usize::from(ahead);
        }
    }
    assert!(log.is_unmappable() || seen == [20, 10], "{seen:?}");
    drop(log);
    assert!(fs::read(&path).unwrap() == expected);
}

/// Checks the length of the file after each record, with records of many sizes, in logs that are
/// synced often and in logs that are synced rarely.
#[test]
fn a_killed_process_leaves_a_log_that_ends_with_a_record_or_with_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for (sizes, synced) in [
        (&[100usize, 3000, 9][..], 1),
        (&[100, 700], 1000),
        (&[4200, 9000, 62_000], 1000),
        (&[700_000, 20], 3),
    ] {
        let mut log = log(dir.path());
        let (mut len, mut aligned) = (0, 0);
        for round in 0..600 {
            let piece = record(len, sizes[round % sizes.len()], round);
            log.write(&piece).unwrap();
            len += piece.len() as u64;
            if round % synced == 0 {
                log.sync().unwrap();
            }
            let file_bytes = fs::metadata(&path).unwrap().len();
            let is_ahead = file_bytes.is_multiple_of(BLOCK_BYTES as u64);
            assert!(file_bytes == len || is_ahead, "{len} in {file_bytes} bytes");
            aligned += u32::from(is_ahead);
            if len > 4 << 20 {
                break;
            }
        }
        assert!(!log.may_reserve || aligned > 5, "{sizes:?}: {aligned}");
        assert!(log.trim().unwrap() || !log.may_reserve);
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_length_that_was_set_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = log(dir.path());
    for i in 0..100 {
        log.write(&record(i * 1000, 1000, 1)).unwrap();
    }
    log.set_len(99_001).unwrap();
    drop(log);
    assert_eq!(fs::metadata(dir.path().join("log")).unwrap().len(), 99_001);
}

#[test]
fn short_logs_are_never_longer_than_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = log(dir.path());
    for i in 0..4 {
        log.write(&record(1000 * i, 1000, 1)).unwrap();
    }
    assert_eq!(fs::metadata(dir.path().join("log")).unwrap().len(), 4000);
    assert!(!log.is_mapped());
}

/// Checks on which filesystems logs are mapped. If a file shares blocks with a copy, storing into
/// the file takes new blocks. If there is no space for the new blocks, a store into a mapping ends
/// the process.
#[test]
fn filesystems_on_which_files_share_blocks_are_not_mapped() {
    const BTRFS: u32 = 0x9123_683e;
    const OVERLAY: u32 = 0x794c_7630;
    const ZFS: u32 = 0x2fc1_2fc1;
    const BCACHEFS: u32 = 0xca45_1a4e;
    for kind in [XFS, BTRFS, OVERLAY, ZFS, BCACHEFS] {
        assert!(!IN_PLACE.contains(&kind), "{kind:x}");
    }
    assert_eq!(IN_PLACE, [EXT4, TMPFS]);
}
