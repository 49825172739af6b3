//! Checks that the files of a database agree with its MANIFEST, before an open changes anything.
//!
//! The first live log shows whether the MANIFEST has lost its last edits. An edit that lets a log
//! begin, or that changes tables between two records of a log, is durable before the log has the
//! next record. So in the first live log, no write is missing before the first record, and none
//! before an empty batch, unless it is in the tables that the MANIFEST names. Later logs show
//! nothing about the MANIFEST: a loss of power may have taken the end of the log before them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::base::{Error, Result};
use crate::engine::open::directory::{
    check_files, check_no_live_directory, ended, live_logs, missing_log,
};
use crate::engine::open::entries::DirListing;
use crate::engine::version::manifest::Recovered;
use crate::format::batch::decode_header;
use crate::format::key::SeqNo;
use crate::format::name::{
    FileName, {self},
};
use crate::fs::Fs;
use crate::log::LogReader;

/// Checks that the files that the MANIFEST names exist, as [`check_files`] does, that no directory
/// takes the place of a live log, and that the first live log shows no loss of edits.
///
/// # Errors
/// As [`check_files`], [`check_no_live_directory`] and [`late_log`].
pub(crate) fn check_entries(
    fs: &dyn Fs,
    dir: &Path,
    entries: &DirListing,
    recovered: &Recovered,
    paranoid: bool,
) -> Result<()> {
    let Recovered { log_number, prev_log_number, .. } = *recovered;
    check_no_live_directory(dir, &entries.directories, log_number, prev_log_number)?;
    check_files(dir, &entries.files, recovered, paranoid)?;
    // Otherwise, the first log itself would be missing.
    if log_number != 0 && recovered.damage.is_none() {
        return Ok(());
    }
    match late_log(fs, dir, &entries.files, recovered)? {
        None => Ok(()),
        Some(what) => Err(recovered.damage.clone().unwrap_or_else(|| ended(dir, recovered, what))),
    }
}

/// Returns a description of the evidence that an undamaged MANIFEST lacks its last edits, or `None`
/// if there is no evidence: the answer of [`missing_log`] or, before the first flush, of
/// [`late_log`].
///
/// # Errors
/// As [`late_log`].
pub(crate) fn lost_edits(
    fs: &dyn Fs,
    dir: &Path,
    files: &[(String, FileName)],
    recovered: &Recovered,
) -> Result<Option<String>> {
    match recovered.log_number {
        0 => late_log(fs, dir, files, recovered),
        number => Ok(missing_log(files, number, &named(recovered))),
    }
}

/// Returns the numbers of the tables that the MANIFEST names.
fn named(recovered: &Recovered) -> BTreeSet<u64> {
    recovered.edit.new_files.iter().map(|file| file.number).collect()
}

/// Returns a description of the evidence that the MANIFEST lacks its last edits, or `None` if there
/// is no evidence. The evidence is a table that is not named, and a first live log that begins, or
/// goes on, after writes that are in no table. For a MANIFEST that names no tables, it is also
/// evidence that there is no live log.
///
/// # Errors
/// I/O errors; unsupported, if the log is another engine's. Damage of the log is no error.
pub(crate) fn late_log(
    fs: &dyn Fs,
    dir: &Path,
    files: &[(String, FileName)],
    recovered: &Recovered,
) -> Result<Option<String>> {
    let named = named(recovered);
    let unnamed = files.iter().find(|(_, name)| match name {
        FileName::Table { number, .. } => !named.contains(number),
        _ => false,
    });
    let Some((table, _)) = unnamed else { return Ok(None) };
    let found = match live_logs(files, recovered).first() {
        Some(&log) => late_record(fs, dir, log, recovered.last_seq)?,
        None => named.is_empty().then(|| "there is no log".to_owned()),
    };
    let tell =
        |found: String| format!("the MANIFEST ends too early: {found}, and no edit names {table}");
    Ok(found.map(tell))
}

/// Returns a description of the first record of the log `number` that shows missing writes after
/// `last_seq`, the last sequence number in tables.
fn late_record(fs: &dyn Fs, dir: &Path, number: u64, last_seq: SeqNo) -> Result<Option<String>> {
    let name = name::log_name(number);
    let path = dir.join(&name);
    let file = fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
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
        if (is_first || count == 0) && first > end.saturating_add(1) {
            return Ok(Some(format!("{name} has sequence number {first} after {end}")));
        }
        end = end.max(first.saturating_add(u64::from(count)).saturating_sub(1));
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::version::testing;
    use crate::fs::MemFs;
    use crate::log::LogWriter;

    const DIR: &str = "/db";

    /// Returns the evidence in a database with the tables 5 and 6, of which the MANIFEST names the
    /// first, and with the logs `logs`. Each log has a number and batches, each with its first
    /// sequence number and its number of operations. The tables end at the sequence number 10.
    fn evidence(log_number: u64, logs: &[(u64, &[(u64, u32)])]) -> Option<String> {
        let fs = MemFs::new();
        fs.create_dir(Path::new(DIR)).unwrap();
        let mut names = vec!["000005.ldb".to_owned(), "000006.ldb".to_owned()];
        for (number, batches) in logs {
            let name = name::log_name(*number);
            let mut log = LogWriter::new(fs.create(&Path::new(DIR).join(&name)).unwrap(), 0);
            for (first, count) in *batches {
                let batch = [&first.to_le_bytes()[..], &count.to_le_bytes()].concat();
                log.add_record(&batch).unwrap();
            }
            names.push(name);
        }
        let parsed = |name: String| {
            let parsed = FileName::parse(&name).expect("a name");
            (name, parsed)
        };
        let files: Vec<_> = names.into_iter().map(parsed).collect();
        let edit = testing::edit(["L0: 5:[a-c]"]);
        let recovered = Recovered { edit, log_number, last_seq: 10, ..Recovered::default() };
        let evidence = late_log(&fs, Path::new(DIR), &files, &recovered);
        let without = files.into_iter().filter(|(file, _)| file != "000006.ldb");
        let without: Vec<_> = without.collect();
        assert_eq!(late_log(&fs, Path::new(DIR), &without, &recovered).unwrap(), None);
        evidence.unwrap()
    }

    #[test]
    fn a_first_log_that_begins_or_goes_on_late_is_evidence() {
        let late = |first, end| {
            Some(format!(
                "the MANIFEST ends too early: 000007.log has sequence number {first} after {end}, \
                 and no edit names 000006.ldb"
            ))
        };
        for log_number in [0, 7] {
            let evidence =
                |batches: &[(u64, u32)]| evidence(log_number, &[(7, batches), (8, &[(90, 0)])]);
            assert_eq!(evidence(&[(12, 0)]), late(12, 10));
            assert_eq!(evidence(&[(12, 1)]), late(12, 10));
            assert_eq!(evidence(&[(11, 0), (11, 3), (14, 0), (16, 0)]), late(16, 13));
            assert_eq!(evidence(&[]), None);
            assert_eq!(evidence(&[(11, 0)]), None);
            assert_eq!(evidence(&[(3, 0), (3, 8), (11, 0)]), None);
            // Other programs leave numbers out.
            assert_eq!(evidence(&[(11, 1), (20, 1)]), None);
        }
    }

    #[test]
    fn no_log_is_evidence_only_if_the_manifest_names_no_table() {
        assert_eq!(evidence(0, &[]), None);
        let recovered = Recovered::default();
        let lost = |names: &[&str]| {
            let parsed = names.iter().map(|name| ((*name).to_owned(), FileName::parse(name)));
            let files: Vec<_> = parsed.map(|(name, parsed)| (name, parsed.unwrap())).collect();
            late_log(&MemFs::new(), Path::new(DIR), &files, &recovered).unwrap()
        };
        let evidence = "the MANIFEST ends too early: there is no log, and no edit names 000005.ldb";
        assert_eq!(lost(&["CURRENT", "000005.ldb"]).as_deref(), Some(evidence));
        assert_eq!(lost(&["CURRENT"]), None);
    }

    #[test]
    fn damage_of_the_first_log_is_no_evidence() {
        let fs = MemFs::new();
        fs.create_dir(Path::new(DIR)).unwrap();
        let bytes = [1, 2, 3, 4, 1, 0, 1, 9, 9];
        fs.create(&Path::new(DIR).join("000007.log")).unwrap().write(&bytes).unwrap();
        assert_eq!(late_record(&fs, Path::new(DIR), 7, 10).unwrap(), None);
        assert!(late_record(&fs, Path::new(DIR), 8, 10).is_err_and(|error| !error.is_corruption()));
    }
}
