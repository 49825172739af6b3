//! Verifying a database: reading all files without changing anything.

use std::path::{Path, PathBuf};

use crate::admin::findings::Findings;
pub(crate) use crate::admin::findings::Progress;
use crate::admin::survey::{Survey, survey};
use crate::base::Result;
pub(crate) use crate::base::error::Corruption;
use crate::engine::open::held::{Files, HeldFs};
use crate::engine::open::read_only::state_of;
use crate::engine::options::Options;

/// Maximum number of passes over the files, if a writer keeps changing the database. With a higher
/// number, `verify` reads more data before it gives up.
const MAX_TRIES: usize = 5;

/// Maximum number of attempts to open all files of one state of the database, if a writer keeps
/// changing it. A higher number helps only with a writer that never pauses.
const MAX_HOLD_TRIES: usize = 50;

/// The results of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VerifyReport {
    /// The faults, up to ten thousand. Each has its file and, if known, its offset, what was
    /// expected and what was found.
    pub faults: Vec<Corruption>,
    /// Number of faults, including those beyond ten thousand.
    pub fault_count: u64,
    /// Facts that are not faults but are worth knowing, such as an incomplete record at the end of
    /// a log, or a table that is no longer needed.
    pub notes: Vec<Corruption>,
    /// The MANIFEST that was used; `None` if there is no MANIFEST.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::base::serialize::optional_path"))]
    pub manifest: Option<PathBuf>,
    /// Number of tables read.
    pub tables: u64,
    /// Number of entries in the undamaged blocks of the tables.
    pub entries: u64,
    /// Number of live logs read.
    pub logs: u64,
    /// Number of batches in the logs. Only batches before the first bad record of each log are
    /// counted.
    pub batches: u64,
    /// Total size of the tables and logs read, in bytes.
    pub bytes: u64,
    /// Whether a writer kept changing the database while some of its tables could not be held open.
    /// If so, files may wrongly be reported as missing.
    pub changed_meanwhile: bool,
}

impl VerifyReport {
    /// Returns whether there are no faults.
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }
}

/// Reads the whole database in the directory `dir`, and returns a report of every fault. The
/// following is checked:
/// - `CURRENT`;
/// - the records of the MANIFEST, and the order of the tables in each level;
/// - of each table, the footer, the index, the filters (no filter may exclude a key of the table),
///   every data block and its checksum, the order of keys, and the recorded range and size;
/// - the records and batches of each live log.
///
/// After a fault, the check continues with the next block, record or file.
///
/// The function takes no lock and changes nothing, so it works on a read-only medium and while a
/// writer is running. It reads one state of the database, and keeps the tables of that state open,
/// up to half of the process's limit on file descriptors. In memory, it keeps one block at a time,
/// and the index and filters of one table. A table whose index cannot be read is read into memory
/// as a whole.
///
/// ```
/// # use minikv::{Db, Options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// # drop(Db::create(path)?);
/// let report = minikv::verify(path, &Options::default())?;
/// assert!(report.is_sound(), "{:?}", report.faults);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::DatabaseMissing`](crate::Error::DatabaseMissing);
/// [`Error::Unsupported`](crate::Error::Unsupported) if the database has another comparator, or if
/// the only fault is a format that this build does not know; an I/O error of the directory. An I/O
/// error of a single file is a fault.
pub fn verify(dir: impl AsRef<Path>, options: &Options) -> Result<VerifyReport> {
    verify_with(dir, options, |_| {})
}

/// Does the same as [`verify`], and calls `progress` while the files are read.
///
/// # Errors
/// The same as for [`verify`].
pub fn verify_with(
    dir: impl AsRef<Path>,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<VerifyReport> {
    let dir = &*crate::fs::absolute(&*options.fs, dir.as_ref())?;
    let mut held = Files::new();
    let mut last_state = state_of(&*options.fs, dir, options);
    let mut tries = 0;
    loop {
        tries += 1;
        let database = hold(dir, options, &mut held);
        let is_held = database.as_ref().is_some_and(|fs| fs.unheld() == 0);
        let held_options = match database {
            Some(fs) => options.clone().fs(fs),
            None => options.clone(),
        };
        let mut findings = Findings::new(&mut progress);
        findings.beside_writer = true;
        let survey = survey(dir, &held_options, &mut findings)?;
        let state = state_of(&*options.fs, dir, options);
        let changed = findings.fault_count > 0 && state != last_state;
        if changed && tries < MAX_TRIES {
            last_state = state;
            continue;
        }
        if let Some(error) = findings.unsupported.take()
            && findings.fault_count == 1
        {
            return Err(error);
        }
        let changed_meanwhile = changed && !is_held;
        return Ok(VerifyReport { changed_meanwhile, ..report(survey, findings) });
    }
}

/// Opens all files of one state of the database. Returns `None` if that fails.
fn hold(dir: &Path, options: &Options, held: &mut Files) -> Option<HeldFs> {
    let mut last_state = None;
    for _ in 0..MAX_HOLD_TRIES {
        if let Ok(Some(fs)) = HeldFs::of_database(dir, options, held) {
            return Some(fs);
        }
        // If the database has not changed since the last attempt, the failure was not caused by a
        // writer.
        let state = state_of(&*options.fs, dir, options);
        if state == last_state {
            return None;
        }
        last_state = state;
    }
    None
}

fn report(survey: Survey, findings: Findings<'_>) -> VerifyReport {
    let tables = survey.tables.values();
    VerifyReport {
        faults: findings.faults,
        fault_count: findings.fault_count,
        notes: findings.notes,
        manifest: survey.manifest.as_ref().map(|manifest| manifest.path.clone()),
        tables: survey.tables.len() as u64,
        entries: tables.clone().map(|table| table.entries).sum(),
        logs: survey.logs.len() as u64,
        batches: survey.logs.iter().map(|log| log.batches).sum(),
        bytes: tables
            .map(|table| table.file_bytes)
            .chain(survey.logs.iter().map(|log| log.file_bytes))
            .fold(0, u64::saturating_add),
        changed_meanwhile: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::logs::LogFacts;

    #[test]
    fn lengths_of_sparse_files_that_overflow_their_sum_are_reported() {
        let log = LogFacts { file_bytes: u64::MAX / 2, ..LogFacts::default() };
        let survey = Survey { logs: vec![log; 3], ..Survey::default() };
        let mut tell = |_| {};
        let report = report(survey, Findings::new(&mut tell));
        assert_eq!((report.logs, report.bytes), (3, u64::MAX));
    }
}
