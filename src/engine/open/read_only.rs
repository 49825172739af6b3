//! Opens a database for reading only: a view of the files at one point in time. The open changes
//! nothing in the directory and takes no lock, so another process may be writing at the same time.
//! [`follow`](crate::engine::follow) brings the view up to date.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Frozen;
use crate::engine::memtable::Memtable;
use crate::engine::open;
use crate::engine::open::check::check_entries;
use crate::engine::open::directory;
use crate::engine::open::entries;
use crate::engine::open::held::{Files, HeldFs, hold_listed, hold_logs, hold_tables};
use crate::engine::open::replay::{LogReplay, Replayed};
use crate::engine::options::Options;
use crate::engine::read::view::{Layers, ReadState, VisibleSeq};
use crate::engine::report::recovery::Recovery;
use crate::engine::version::manifest::Recovered;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::{Version, manifest};
use crate::format::batch::MAX_OPERATIONS;
use crate::format::key::InternalComparator;
use crate::format::name::{self, FileName};
use crate::fs::{Fs, ReadFile, absolute};

/// Maximum number of attempts to make a view while a writer changes the files. A higher limit helps
/// only if the writer never pauses.
const MAX_TRIES: usize = 100;

/// A database opened for reading only.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The absolute path of the directory.
    pub dir: PathBuf,
    /// The state for reads.
    pub state: Arc<ReadState>,
    /// The result of replaying the logs.
    pub recovery: Recovery,
    /// The files that were read.
    pub survey: ReadOnlyFiles,
    /// The logs that were replayed.
    pub logs: Vec<u64>,
    /// The last log that was replayed; `None` if records were left out, or if there is no log.
    pub last_log: Option<LastLog>,
}

/// The last log that was replayed.
#[derive(Debug)]
pub(crate) struct LastLog {
    /// The number of the log.
    pub number: u64,
    /// Offset of the end of the log's last record, in bytes.
    pub end: u64,
    /// The log, which is held open.
    pub file: Arc<dyn ReadFile>,
}

/// The files of a database at one point in time, and the MANIFEST's contents.
#[derive(Debug)]
pub(crate) struct ReadOnlyFiles {
    /// The names of the files. The directory is listed before the MANIFEST is read and again
    /// afterwards. The names include every log that the MANIFEST needs, unless the log was created
    /// after both listings, and every log with writes that are older than the tables.
    pub files: Vec<(String, FileName)>,
    /// The logs of the first listing, held open.
    pub logs: Files,
    /// The name of the MANIFEST.
    pub manifest_name: String,
    /// The MANIFEST.
    pub manifest: Arc<dyn ReadFile>,
    /// The contents of the MANIFEST.
    pub recovered: Recovered,
}

/// Opens the database in `dir`.
///
/// # Errors
/// [`Error::DatabaseMissing`], [`Error::Unsupported`] for another comparator,
/// [`Error::InvalidArgument`] for an invalid option, corruption and I/O errors.
pub(crate) fn open(dir: &Path, options: &Options) -> Result<Opened> {
    let options = &options.clone().checked()?;
    let dir = &absolute(&*options.fs, dir)?;
    let mut held = Files::new();
    let is_whole = |opened: &Opened| opened.recovery.lost.is_empty();
    retried(dir, options, is_whole, || open_once(dir, options, &mut held))
}

/// Returns the result of `attempt` for the database in `dir`.
///
/// If an attempt fails or its result is not whole, makes another attempt, unless the directory has
/// not changed since the previous attempt. Makes at most [`MAX_TRIES`] attempts in all. A failure
/// may be due to changes that a writer made during the attempt.
///
/// # Errors
/// [`Error::DatabaseMissing`]; the error of the last attempt; an I/O error of the kind
/// [`io::ErrorKind::ResourceBusy`] if the directory changed during every attempt and the last error
/// may be due to that.
pub(crate) fn retried<T>(
    dir: &Path,
    options: &Options,
    is_whole: impl Fn(&T) -> bool,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let fs = &*options.fs;
    if !directory::has_database(fs, dir)? {
        return Err(Error::DatabaseMissing { path: dir.to_path_buf() });
    }
    let mut last_state = None;
    let mut tries = 0;
    loop {
        tries += 1;
        let opened = attempt();
        if opened.as_ref().is_ok_and(&is_whole) {
            return opened;
        }
        let state = state_of(fs, dir, options);
        if state.is_some() && state == last_state {
            return opened;
        }
        if tries == MAX_TRIES {
            return opened.map_err(|error| always_changed(dir, error));
        }
        last_state = state;
    }
}

/// Returns the error for a writer that changed the files during every attempt: `last`, the error of
/// the last attempt, unless it may be due to the change.
fn always_changed(dir: &Path, last: Error) -> Error {
    if !last.is_corruption() && last.io_kind() != Some(io::ErrorKind::NotFound) {
        return last;
    }
    let what = format!(
        "a writer changed the files during each of {MAX_TRIES} attempts, the last time with: {last}"
    );
    Error::io("read", dir, io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// Returns the names of the files, and the number and the valid length of the current MANIFEST. At
/// least one of these values changes whenever the set of files or the MANIFEST changes. Returns
/// `None` if the directory cannot be listed.
pub(crate) fn state_of(
    fs: &dyn Fs,
    dir: &Path,
    options: &Options,
) -> Option<(Vec<String>, u64, u64)> {
    let mut names = fs.list(dir).ok()?;
    names.sort();
    let recovered = manifest::recover_beside_writer(fs, dir, options.comparator.name());
    // A MANIFEST that cannot be read counts as unchanged.
    let end = recovered.map_or((0, 0), |found| (found.manifest_number, found.valid_end));
    Some((names, end.0, end.1))
}

/// Reads the MANIFEST, and makes `held` contain exactly the tables that it names.
///
/// # Errors
/// Corruption, including a missing file; [`Error::Unsupported`] for another comparator; I/O errors.
pub(crate) fn survey(dir: &Path, options: &Options, held: &mut Files) -> Result<ReadOnlyFiles> {
    let fs = &*options.fs;
    let mut entries = entries::entries(fs, dir)?;
    let logs = hold_listed(fs, dir, &entries.files, held);
    let (manifest_name, manifest) = manifest::open_manifest(fs, dir)?;
    let comparator = options.comparator.name();
    let recovered =
        manifest::read_manifest(&manifest_name, manifest.clone(), dir, comparator, true)?;
    // The files are listed again, because a table, or a log whose writes are older than the tables,
    // may have been created after the first listing.
    entries.files.extend(entries::list_files(fs, dir)?);
    let log_fs = HeldFs::new(options.fs.clone(), logs.clone());
    check_entries(&log_fs, dir, options, &entries, &recovered)?;
    hold_tables(fs, dir, &recovered.edit.new_files, held)?;
    Ok(ReadOnlyFiles { files: entries.files, logs, manifest_name, manifest, recovered })
}

fn open_once(dir: &Path, options: &Options, held: &mut Files) -> Result<Opened> {
    let survey = survey(dir, options, held)?;
    let recovered = &survey.recovered;
    let mut with_logs = held.clone();
    with_logs.extend(survey.logs.clone());
    let live_logs = directory::live_logs(&survey.files, recovered);
    let logs = hold_logs(&*options.fs, dir, &live_logs, &mut with_logs)?;
    // The tables keep their own files open, so this filesystem holds no files. It rejects all
    // changes.
    let fs: Arc<dyn Fs> = Arc::new(HeldFs::new(options.fs.clone(), Files::new()));
    let order = InternalComparator::new(options.comparator.clone());
    let log_fs = HeldFs::new(options.fs.clone(), with_logs);
    let replay = LogReplay {
        fs: &log_fs,
        dir,
        order: &order,
        write_buffer_bytes: usize::MAX,
        max_entries: MAX_OPERATIONS as usize,
        paranoid: options.paranoid_checks,
        beside_writer: true,
    };
    let mut replayed = replay.run(&logs, recovered.last_seq, |_| Ok(()))?;
    // The trash stays empty, because no edit ever drops a table of this version.
    let trash = Arc::new(Trash::new(fs.clone(), dir));
    let version = Version::default().apply(&recovered.edit, &order, &trash)?;
    HeldFs::new(options.fs.clone(), held.clone()).give_to(&version, dir);
    let layers = layers_of(&mut replayed.memtables, &order, Arc::new(version));
    let visible = VisibleSeq::new(replayed.last_seq);
    let (tables, block_cache) = open::table_cache(&fs, dir, options, &order, None);
    let state = ReadState::new(order, tables, block_cache, trash, layers, visible, None);
    let state = state.with_clock(options.clock.clone()).with_sample(options.sample.clone());
    let Replayed { recovery, read_to, .. } = replayed;
    let last_log = match read_to {
        None => None,
        Some((number, end)) => {
            let path = dir.join(name::log_name(number));
            let file = log_fs.open(&path).map_err(|error| Error::io("open", path, error))?;
            Some(LastLog { number, end, file })
        }
    };
    let (dir, state) = (dir.to_path_buf(), Arc::new(state));
    Ok(Opened { dir, state, recovery, survey, logs, last_log })
}

/// Takes the memtables of a replay, oldest first. Returns them as layers above `version`.
fn layers_of(
    memtables: &mut VecDeque<Frozen>,
    order: &InternalComparator,
    version: Arc<Version>,
) -> Layers {
    let mem = match memtables.pop_back() {
        Some(last) => last.mem,
        None => Arc::new(Memtable::new(order.user(), 0)),
    };
    let imm = memtables.drain(..).rev().map(|frozen| frozen.mem).collect();
    Layers { mem, imm, version }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Db;
    use crate::engine::version::testing::order;
    use crate::fs::{MemFs, SimFs};

    #[test]
    fn every_memtable_of_a_replay_is_shown_the_newest_first() {
        for count in 0..4 {
            let mem = |_| Arc::new(Memtable::new(order().user(), 0));
            let mems: Vec<_> = (0..count).map(mem).collect();
            let frozen = |mem: &Arc<Memtable>| Frozen { mem: mem.clone(), first_log: 1, bytes: 0 };
            let mut memtables = mems.iter().map(frozen).collect();
            let layers = layers_of(&mut memtables, &order(), Arc::default());
            let shown: Vec<_> = layers.memtables().map(Arc::as_ptr).collect();
            let expected: Vec<_> = mems.iter().rev().map(Arc::as_ptr).collect();
            assert!(shown == expected || (count == 0 && shown.len() == 1), "{count}: {shown:?}");
        }
    }

    /// Checks that an attempt that fails, or whose result is not whole, is repeated as long as the
    /// files have changed since the previous attempt.
    #[test]
    fn attempts_are_repeated_while_the_files_change() {
        let (fs, dir) = (Arc::new(MemFs::new()), Path::new("/db"));
        let options = Options::default().create_if_missing(true).inline_background(Some(4));
        let options = options.fs(fs.clone());
        let db = Db::open(dir, options.clone()).unwrap();
        // Each change is an edit of the MANIFEST or a new file name.
        let changes = std::cell::Cell::new(0);
        let change = || {
            let number = changes.replace(changes.get() + 1);
            match number % 2 {
                0 => drop(fs.create(&dir.join(format!("other {number}"))).unwrap()),
                _ => {
                    db.put("key", "value").unwrap();
                    db.flush().unwrap();
                }
            }
        };
        // Returns the result and the number of attempts. The files change during the first
        // `changing` attempts. All attempts before attempt number `whole` fail if `fails` is set,
        // and otherwise return a result that is not whole.
        let attempts = |changing: usize, whole: usize, fails: bool| {
            let mut tries = 0;
            let attempt = || {
                tries += 1;
                if tries <= changing {
                    change();
                }
                match tries < whole && fails {
                    true => Err(Error::corruption("torn")),
                    false => Ok(tries),
                }
            };
            let result = retried(dir, &options, |&tries: &usize| tries >= whole, attempt);
            (result.ok(), tries)
        };
        assert_eq!(attempts(0, 1, true), (Some(1), 1));
        assert_eq!(attempts(7, 6, true), (Some(6), 6));
        assert_eq!(attempts(7, 6, false), (Some(6), 6));
        // If no attempt succeeds, one more attempt is made after the last change.
        assert_eq!(attempts(7, usize::MAX, true), (None, 8));
        assert_eq!(attempts(7, usize::MAX, false), (Some(8), 8));
        assert_eq!(attempts(0, usize::MAX, true), (None, 2));
        assert_eq!(attempts(usize::MAX, usize::MAX, false), (Some(MAX_TRIES), MAX_TRIES));
        assert_eq!(attempts(usize::MAX, usize::MAX, true), (None, MAX_TRIES));
        let told = |error: Error| {
            let attempt = || {
                change();
                Err::<(), _>(error.clone())
            };
            retried(dir, &options, |()| true, attempt).unwrap_err()
        };
        let busy = told(Error::corruption("torn: the database needs repair"));
        assert_eq!(busy.io_kind(), Some(io::ErrorKind::ResourceBusy), "{busy}");
        assert!(busy.to_string().contains("a writer changed the files"), "{busy}");
        assert!(matches!(told(Error::invalid("order")), Error::InvalidArgument { .. }));
        let missing = retried(Path::new("/none"), &options, |()| true, || Ok(()));
        assert!(matches!(missing, Err(Error::DatabaseMissing { .. })), "{missing:?}");
    }

    /// Opens the database in one attempt. Just before one of its operations, a writer flushes and
    /// compacts.
    #[test]
    fn a_change_of_all_files_at_any_moment_of_an_open_makes_no_attempt_fail() {
        for at in 0.. {
            let (fs, dir) = (SimFs::new(1), Path::new("/db"));
            let options = Options::default().create_if_missing(true).inline_background(Some(4));
            let options = options.fs(fs.clone());
            let db = Db::open(dir, options.clone()).unwrap();
            db.put("table", "1").unwrap();
            db.flush().unwrap();
            db.put("log", "2").unwrap();
            let (done, reader) = (AtomicUsize::new(0), std::thread::current().id());
            let writer = db.clone();
            fs.set_hook(move |_| {
                let is_reader = std::thread::current().id() == reader;
                if is_reader && done.fetch_add(1, Ordering::Relaxed) == at {
                    writer.put("last", "3").unwrap();
                    writer.flush().unwrap();
                    writer.compact_range(..).unwrap();
                }
            });
            let opened = open_once(dir, &options, &mut Files::new());
            fs.clear_hook();
            let is_over = db.get("last").unwrap().is_none();
            let opened = opened.unwrap_or_else(|error| panic!("operation {at}: {error}"));
            assert!(opened.recovery.lost.is_empty(), "operation {at}: {:?}", opened.recovery.lost);
            let reading = opened.state.visible_seq();
            assert!(reading >= 2, "operation {at}: only {reading} of 2 writes");
            if is_over {
                assert!(at > 10, "an open has {at} operations");
                return;
            }
        }
    }
}
