//! Verifying: everything is read, nothing is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admin::findings::Findings;
pub use crate::admin::findings::Progress;
use crate::admin::survey::{Survey, survey};
use crate::base::Result;
pub use crate::base::error::Corruption;
use crate::engine::directory;
use crate::engine::options::Options;
use crate::engine::pinned::{Files, PinnedFs};
use crate::engine::read_only::state_of;

/// How often all files are read anew because a writer changed them meanwhile.
const MAX_TRIES: usize = 5;

/// How often it is tried to hold them.
const MAX_HOLD_TRIES: usize = 50;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Every fault, with its file, and where known its offset, what was expected and what is
    /// there. Beyond ten thousand they are only counted.
    pub faults: Vec<Corruption>,
    /// The number of faults.
    pub fault_count: u64,
    /// What is no fault, but worth knowing: a torn record at the end of a log, tables nobody
    /// needs any more.
    pub notes: Vec<Corruption>,
    /// The MANIFEST that was gone by; `None` if there is none.
    pub manifest: Option<PathBuf>,
    /// Tables read.
    pub tables: u64,
    /// Entries in them, in sound blocks.
    pub entries: u64,
    /// Live logs read.
    pub logs: u64,
    /// Batches in them, before the first bad record of each.
    pub batches: u64,
    /// The bytes of the tables and logs.
    pub bytes: u64,
    /// Whether a writer changed the database all the time, and not all of its tables could be held
    /// open: then files may seem to be missing that are not.
    pub changed_meanwhile: bool,
}

impl VerifyReport {
    /// Whether there is no fault.
    pub fn is_sound(&self) -> bool {
        self.fault_count == 0
    }
}

/// Reads all of the database in the directory `dir` and tells every fault: `CURRENT`; the records
/// of the MANIFEST, and whether its levels are in order; of each table the footer, the index, the
/// filters (and that none denies a key that is there), every data block with its checksum, the
/// order of keys and the range and size that the MANIFEST records; the records and batches of each
/// live log. After a fault it goes on with the next block, record or file.
///
/// It takes no lock and changes nothing, so it works on a read-only medium and beside a writer.
/// What it reads is the database of one moment, whose tables are held open: as many as half of the
/// file descriptors that the process may have. In memory are a block at a time, and the index and
/// filters of one table.
///
/// ```
/// # use minikv::{Db, Options};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// # drop(Db::open(path, Options::default().create_if_missing(true))?);
/// let report = minikv::verify(path, &Options::default())?;
/// assert!(report.is_sound(), "{:?}", report.faults);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::DatabaseMissing`](crate::Error::DatabaseMissing);
/// [`Error::Unsupported`](crate::Error::Unsupported) for another comparator, or if what this build
/// does not know is all that is wrong; an I/O error of the directory. An I/O error of one file is
/// a fault.
pub fn verify(dir: impl AsRef<Path>, options: &Options) -> Result<VerifyReport> {
    verify_with(dir, options, |_| {})
}

/// [`verify`], which tells `progress` how far it is after each block.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    dir: impl AsRef<Path>,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<VerifyReport> {
    let dir = &*directory::absolute(&*options.fs, dir.as_ref())?;
    let mut held = Files::new();
    let mut last_state = state_of(&*options.fs, dir, options);
    let mut tries = 0;
    loop {
        tries += 1;
        let moment = hold(dir, options, &mut held);
        let is_held = moment.as_ref().is_some_and(|fs| fs.unheld() == 0);
        let on_moment = match moment {
            Some(fs) => options.clone().fs(Arc::new(fs)),
            None => options.clone(),
        };
        let mut findings = Findings::new(&mut progress);
        findings.beside_writer = true;
        let survey = survey(dir, &on_moment, &mut findings)?;
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

/// Everything that counts at one moment, if it can be had.
fn hold(dir: &Path, options: &Options, held: &mut Files) -> Option<PinnedFs> {
    let mut last_state = None;
    for _ in 0..MAX_HOLD_TRIES {
        if let Ok(Some(fs)) = PinnedFs::of_moment(dir, options, held) {
            return Some(fs);
        }
        // It fails for another reason if nobody changes anything.
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
        bytes: tables.map(|table| table.file_bytes).sum::<u64>()
            + survey.logs.iter().map(|log| log.file_bytes).sum::<u64>(),
        changed_meanwhile: false,
    }
}
