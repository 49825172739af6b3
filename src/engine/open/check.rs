//! Checks that the files of a database agree with its MANIFEST, before an open changes anything.
//!
//! Live logs show whether the MANIFEST has lost its last edits:
//! - An edit that lets a log begin is durable before the log has a record. So in the first live
//!   log, no write is missing before the first record, unless it is in the tables that the MANIFEST
//!   names. Other programs leave numbers out: only a write that is found, in a table that is not
//!   named, is missing. Later logs show nothing here: a loss of power may have taken the end of the
//!   log before them.
//! - A change of the tables that is not in the log, such as an ingest, is durable before the empty
//!   batch that follows it in the log ([`table_change`](crate::engine::table_change)). So in any
//!   log, no number is missing before an empty batch that is not the first record.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::open::directory::{
    check_files, check_no_live_directory, ended, live_logs, missing_log,
};
use crate::engine::open::entries::DirListing;
use crate::engine::options::Options;
use crate::engine::version::manifest::Recovered;
use crate::format::batch::decode_header;
use crate::format::key::{InternalComparator, KeyOrder, ParsedKey, SeqNo};
use crate::format::name::{self, FileName};
use crate::fs::Fs;
use crate::log::LogReader;
use crate::table::Table;
use crate::table::reader::{BlockReadOptions, TableContext};

/// Checks that the files that the MANIFEST names exist, as [`check_files`] does, that no directory
/// takes the place of a live log, and that the live logs show no loss of edits. Reads them by `fs`.
///
/// # Errors
/// As [`check_files`], [`check_no_live_directory`] and [`late_log`].
pub(crate) fn check_entries(
    fs: &dyn Fs,
    dir: &Path,
    options: &Options,
    entries: &DirListing,
    recovered: &Recovered,
) -> Result<()> {
    let Recovered { log_number, prev_log_number, .. } = *recovered;
    check_no_live_directory(dir, &entries.directories, log_number, prev_log_number)?;
    check_files(dir, &entries.files, recovered, options.paranoid_checks)?;
    let order = InternalComparator::new(options.comparator.clone());
    match late_log(fs, dir, &order, &entries.files, recovered)? {
        None => Ok(()),
        Some(what) => Err(recovered.damage.clone().unwrap_or_else(|| ended(dir, recovered, what))),
    }
}

/// Returns a description of the evidence that an undamaged MANIFEST lacks its last edits, or `None`
/// if there is no evidence: the answer of [`missing_log`] or of [`late_log`].
///
/// # Errors
/// As [`late_log`].
pub(crate) fn lost_edits(
    fs: &dyn Fs,
    dir: &Path,
    order: &InternalComparator,
    files: &[(String, FileName)],
    recovered: &Recovered,
) -> Result<Option<String>> {
    match missing_log(files, recovered.log_number, &named(recovered)) {
        None => late_log(fs, dir, order, files, recovered),
        found => Ok(found),
    }
}

/// Returns the numbers of the tables that the MANIFEST names.
fn named(recovered: &Recovered) -> BTreeSet<u64> {
    recovered.edit.new_files.iter().map(|file| file.number).collect()
}

/// Returns a description of the evidence that the MANIFEST lacks its last edits, or `None` if there
/// is no evidence. The evidence is in the live logs. For a MANIFEST from before the first flush
/// that names no tables, it is also evidence that there is no live log, but a table with entries.
///
/// # Errors
/// I/O errors; unsupported, if a log or a table is another engine's. Damage of a log or of a table
/// that is not named is no error.
fn late_log(
    fs: &dyn Fs,
    dir: &Path,
    order: &InternalComparator,
    files: &[(String, FileName)],
    recovered: &Recovered,
) -> Result<Option<String>> {
    let named = named(recovered);
    let unnamed = files.iter().filter(|(_, name)| match name {
        FileName::Table { number, .. } => !named.contains(number),
        _ => false,
    });
    let unnamed: Vec<_> = unnamed.map(|(file, _)| file.as_str()).collect();
    let is_doubtful = recovered.log_number == 0 || recovered.damage.is_some();
    let reads_on = is_doubtful && !unnamed.is_empty();
    let search = Search { fs, dir, order, unnamed, reads_on };
    let logs = live_logs(files, recovered);
    if logs.is_empty() && recovered.log_number == 0 && named.is_empty() {
        let table = search.table_with(&(0..SeqNo::MAX))?;
        let tell = |table| {
            format!("the MANIFEST ends too early: there is no log, and no edit names {table}")
        };
        return Ok(table.map(tell));
    }
    for &log in &logs {
        let found = search.late_record(log, recovered.last_seq, logs.first() == Some(&log))?;
        if let Some(found) = found {
            return Ok(Some(format!("the MANIFEST ends too early: {found}")));
        }
    }
    Ok(None)
}

/// A search for writes that are in no table that the MANIFEST names.
struct Search<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    order: &'a InternalComparator,
    /// The names of the tables that the MANIFEST does not name.
    unnamed: Vec<&'a str>,
    /// Whether to read the first log beyond its first write.
    reads_on: bool,
}

impl Search<'_> {
    /// Returns a description of the first record of the log `number` that shows a loss of edits.
    /// `last_seq` is the last sequence number in the tables that the MANIFEST names.
    fn late_record(
        &self,
        number: u64,
        last_seq: SeqNo,
        is_first_log: bool,
    ) -> Result<Option<String>> {
        let name = name::log_name(number);
        let path = self.dir.join(&name);
        let file = self.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
        let mut reader = LogReader::of_batches(file, &path)?;
        let (mut end, mut is_first) = (last_seq, true);
        loop {
            let header = match reader.next() {
                Ok(Some(record)) => decode_header(record),
                Ok(None) => return Ok(None),
                Err(error) => Err(error),
            };
            let (first, count) = match header {
                Ok(header) => header,
                Err(error) if error.is_corruption() => return Ok(None),
                Err(error) => return Err(error),
            };
            let missing = end.saturating_add(1)..first;
            let found = || format!("{name} has sequence number {first} after {end}");
            if is_first && is_first_log {
                if let Some(table) = self.table_with(&missing)? {
                    return Ok(Some(found() + ", and no edit names " + table));
                }
            } else if !is_first && count == 0 && !missing.is_empty() {
                return Ok(Some(found()));
            }
            // The tables are not changed while the log has a write. A later gap may be that of a
            // write of LevelDB that failed, for lack of space.
            if count > 0 && !(is_first_log && self.reads_on) {
                return Ok(None);
            }
            end = end.max(first.saturating_add(u64::from(count)).saturating_sub(1));
            is_first = false;
        }
    }

    /// Returns the name of a table that the MANIFEST does not name and that has an entry with one
    /// of the sequence numbers `seqs`; `None` if there is no such table.
    fn table_with(&self, seqs: &Range<SeqNo>) -> Result<Option<&str>> {
        for &table in self.unnamed.iter().filter(|_| !seqs.is_empty()) {
            match self.has_entry(&self.dir.join(table), seqs) {
                Ok(true) => return Ok(Some(table)),
                Err(error) if !error.is_corruption() => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns whether an entry of the table at `path` has one of the sequence numbers `seqs`. A
    /// compaction may have put any other entries before it.
    fn has_entry(&self, path: &Path, seqs: &Range<SeqNo>) -> Result<bool> {
        let file = self.fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let bytes = file.len().map_err(|error| Error::io("read", path, error))?;
        let context = TableContext {
            order: KeyOrder::Internal(self.order.clone()),
            filter_policy: None,
            prefix_extractor: None,
            block_cache: None,
            paranoid: false,
        };
        let table = Arc::new(Table::open(file, bytes, path.to_path_buf(), &context)?);
        let mut entries = table.cursor(BlockReadOptions::default());
        let mut valid = entries.seek_to_first()?;
        while valid {
            if seqs.contains(&ParsedKey::parse(entries.key())?.seq) {
                return Ok(true);
            }
            valid = entries.next()?;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::table_writer::{TableOutput, Target};
    use crate::engine::version::testing;
    use crate::format::key::{KeyKind, internal_key};
    use crate::fs::MemFs;
    use crate::log::LogWriter;

    const DIR: &str = "/db";

    /// Returns a filesystem with the directory of a database.
    fn filesystem() -> MemFs {
        let fs = MemFs::new();
        fs.create_dir(Path::new(DIR)).unwrap();
        fs
    }

    /// Writes the table `number`, whose entries have the sequence numbers `seqs`. Each is in a
    /// block of its own.
    fn write_table(fs: &MemFs, number: u64, seqs: &[SeqNo]) {
        let (options, order) = (Options::default().block_bytes(1), testing::order());
        let target = Target::new(fs, Path::new(DIR), &options, &order);
        let mut table = TableOutput::create(&target, 0, number).unwrap();
        for (i, seq) in seqs.iter().enumerate() {
            let key = internal_key(&[i as u8], *seq, KeyKind::Value);
            table.add(&key, &ParsedKey::parse(&key).unwrap(), b"value").unwrap();
        }
        table.finish().unwrap();
    }

    fn flip(fs: &MemFs, number: u64, at: usize) {
        let path = Path::new(DIR).join(name::table_name(number));
        let mut bytes = vec![0; fs.len(&path).unwrap() as usize];
        fs.open(&path).unwrap().read_at(&mut bytes, 0).unwrap();
        bytes[at] ^= 1;
        fs.create(&path).unwrap().write(&bytes).unwrap();
    }

    fn found(fs: &MemFs, recovered: &Recovered) -> Option<String> {
        let names = fs.list(Path::new(DIR)).unwrap();
        let parsed = |name: String| {
            let parsed = FileName::parse(&name).expect("a name");
            (name, parsed)
        };
        let files: Vec<_> = names.into_iter().map(parsed).collect();
        late_log(fs, Path::new(DIR), &testing::order(), &files, recovered).unwrap()
    }

    fn search<'a>(fs: &'a MemFs, order: &'a InternalComparator, unnamed: &[&'a str]) -> Search<'a> {
        Search { fs, dir: Path::new(DIR), order, unnamed: unnamed.to_vec(), reads_on: false }
    }

    /// A log: its number and its batches, each with its first sequence number and its number of
    /// operations.
    type Log<'a> = (u64, &'a [(u64, u32)]);

    /// Returns the evidence in a database with the table 5, which the MANIFEST names, and with the
    /// logs `logs`. The table ends at the sequence number 10. If `seqs` are given, there is also
    /// the table 6, whose entries have these sequence numbers.
    fn evidence(log_number: u64, seqs: Option<&[SeqNo]>, logs: &[Log<'_>]) -> Option<String> {
        let fs = filesystem();
        write_table(&fs, 5, &[10]);
        seqs.iter().for_each(|seqs| write_table(&fs, 6, seqs));
        for (number, batches) in logs {
            let path = Path::new(DIR).join(name::log_name(*number));
            let mut log = LogWriter::new(fs.create(&path).unwrap(), 0);
            for (first, count) in *batches {
                let batch = [&first.to_le_bytes()[..], &count.to_le_bytes()].concat();
                log.add_record(&batch).unwrap();
            }
        }
        let edit = testing::edit(["L0: 5:[a-c]"]);
        let recovered = Recovered { edit, log_number, last_seq: 10, ..Recovered::default() };
        found(&fs, &recovered)
    }

    #[test]
    fn a_first_log_that_begins_after_the_writes_of_an_unnamed_table_is_evidence() {
        let late = |first| {
            Some(format!(
                "the MANIFEST ends too early: 000007.log has sequence number {first} after 10, \
                 and no edit names 000006.ldb"
            ))
        };
        for log_number in [0, 7] {
            let evidence = |seqs: Option<&[SeqNo]>, batches: &[(u64, u32)]| {
                evidence(log_number, seqs, &[(7, batches), (8, &[(90, 0)])])
            };
            let writes: Option<&[SeqNo]> = Some(&[3, 9, 11]);
            assert_eq!(evidence(writes, &[(12, 0)]), late(12));
            assert_eq!(evidence(writes, &[(12, 1)]), late(12));
            assert_eq!(evidence(writes, &[(14, 2)]), late(14));
            assert_eq!(evidence(writes, &[]), None);
            assert_eq!(evidence(writes, &[(11, 0)]), None);
            assert_eq!(evidence(writes, &[(3, 0), (3, 8), (11, 0)]), None);
            // Other programs leave numbers out.
            assert_eq!(evidence(writes, &[(11, 1), (20, 1)]), None);
            assert_eq!(evidence(None, &[(12, 1)]), None);
            assert_eq!(evidence(Some(&[3, 10, 12, 13]), &[(12, 1), (13, 1)]), None);
        }
    }

    #[test]
    fn a_log_that_goes_on_late_before_an_empty_batch_is_evidence_without_a_table() {
        let late = |log, first, end| {
            Some(format!(
                "the MANIFEST ends too early: {log:06}.log has sequence number {first} after {end}"
            ))
        };
        for seqs in [None, Some(&[3][..])] {
            let evidence = |logs: &[Log<'_>]| evidence(7, seqs, logs);
            assert_eq!(evidence(&[(7, &[(11, 0), (12, 0)])]), late(7, 12, 10));
            assert_eq!(evidence(&[(7, &[(11, 0), (11, 0), (13, 0), (13, 1)])]), late(7, 13, 10));
            assert_eq!(evidence(&[(7, &[(9, 0), (10, 0), (11, 0), (11, 2), (13, 0)])]), None);
            // A loss of power has taken the end of the first log, but not an edit.
            assert_eq!(evidence(&[(7, &[(11, 1)]), (8, &[(20, 0), (20, 1)])]), None);
            let second: Log<'_> = (8, &[(20, 0), (21, 0), (21, 1)]);
            assert_eq!(evidence(&[(7, &[(11, 9)]), second]), late(8, 21, 19));
        }
        let goes_on: Log<'_> = (7, &[(11, 0), (11, 3), (14, 0), (16, 0)]);
        assert_eq!(evidence(0, Some(&[3]), &[goes_on]), late(7, 16, 13));
        // LevelDB has failed to write the batches in between.
        assert_eq!(evidence(7, Some(&[3]), &[goes_on]), None);
        assert_eq!(evidence(0, None, &[goes_on]), None);
    }

    #[test]
    fn no_log_is_evidence_only_beside_entries_if_the_manifest_names_no_table() {
        assert_eq!(evidence(0, Some(&[11]), &[]), None);
        let fs = filesystem();
        fs.create(&Path::new(DIR).join("000005.ldb")).unwrap();
        let recovered = Recovered::default();
        assert_eq!(found(&fs, &recovered), None);
        write_table(&fs, 6, &[1]);
        let evidence = "the MANIFEST ends too early: there is no log, and no edit names 000006.ldb";
        assert_eq!(found(&fs, &recovered).as_deref(), Some(evidence));
        // Then the first log itself is missing.
        assert_eq!(found(&fs, &Recovered { log_number: 7, ..recovered }), None);
    }

    #[test]
    fn a_table_counts_up_to_its_first_damage() {
        let fs = filesystem();
        let order = testing::order();
        let search = search(&fs, &order, &["000006.ldb"]);
        let has = |seqs: Range<SeqNo>| search.table_with(&seqs).unwrap().is_some();
        write_table(&fs, 6, &[4, 9, 7]);
        assert!(has(4..5) && has(7..8) && has(5..10));
        assert!(!has(0..4) && !has(5..7) && !has(8..9) && !has(10..90) && !has(7..7));
        let path = Path::new(DIR).join("000006.ldb");
        let file = fs.open(&path).unwrap();
        let context = Options::default().table_context(&order, None);
        let table = Table::open(file, fs.len(&path).unwrap(), path.clone(), &context).unwrap();
        let offsets: Vec<_> = table.blocks().unwrap().iter().map(|it| it.handle.offset).collect();
        assert_eq!(offsets.len(), 3);
        flip(&fs, 6, offsets[1] as usize);
        assert!(has(4..5) && !has(5..90));
        flip(&fs, 6, offsets[0] as usize);
        assert!(!has(0..90));
        fs.create(&path).unwrap().write(b"half a table").unwrap();
        assert!(!has(0..90));
        fs.remove(&path).unwrap();
        assert!(search.table_with(&(0..90)).is_err_and(|error| !error.is_corruption()));
    }

    #[test]
    fn damage_of_the_first_log_is_no_evidence() {
        let fs = filesystem();
        let bytes = [1, 2, 3, 4, 1, 0, 1, 9, 9];
        fs.create(&Path::new(DIR).join("000007.log")).unwrap().write(&bytes).unwrap();
        let order = testing::order();
        let search = search(&fs, &order, &[]);
        assert_eq!(search.late_record(7, 10, true).unwrap(), None);
        assert!(search.late_record(8, 10, true).is_err_and(|error| !error.is_corruption()));
    }
}
