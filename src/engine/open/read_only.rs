//! Opening for reading only: a view of the files at one moment. This changes nothing in the
//! directory and takes no lock, so another process may be writing meanwhile.

use std::path::Path;
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::memtable::Memtable;
use crate::engine::open::directory::{self};
use crate::engine::open::held::{Files, HeldFs, hold_logs, hold_tables};
use crate::engine::open::replay::{LogReplay, Recovery};
use crate::engine::open::{self};
use crate::engine::options::Options;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::version::obsolete::Trash;
use crate::engine::version::{Version, manifest};
use crate::format::key::InternalComparator;
use crate::fs::{Fs, absolute};

/// Maximum number of attempts to make a view while a writer changes the files. Raising it helps
/// only beside a writer that never pauses.
const MAX_TRIES: usize = 50;

/// A database opened for reading only.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The state for reads. Its view never changes.
    pub state: Arc<ReadState>,
    /// The result of replaying the logs.
    pub recovery: Recovery,
    /// Number of tables that could not be held open.
    pub unheld_tables: u64,
}

/// Opens the database in `dir`.
///
/// Retries a failed attempt until the directory did not change between two attempts, because a
/// failure may be due to what a writer did meanwhile.
///
/// # Errors
/// [`Error::DatabaseMissing`], [`Error::Unsupported`] for another comparator, corruption and I/O
/// errors.
pub(crate) fn open(dir: &Path, options: &Options) -> Result<Opened> {
    let fs = &*options.fs;
    let dir = &absolute(fs, dir)?;
    if !directory::has_database(fs, dir)? {
        return Err(Error::DatabaseMissing { path: dir.to_path_buf() });
    }
    let mut held = Files::new();
    let mut last_state = None;
    let mut tries = 0;
    loop {
        tries += 1;
        let opened = open_once(dir, options, &mut held);
        if opened.as_ref().is_ok_and(|opened| opened.recovery.lost.is_empty()) {
            return opened;
        }
        let state = state_of(fs, dir, options);
        if tries == MAX_TRIES || (state.is_some() && state == last_state) {
            return opened;
        }
        last_state = state;
    }
}

/// Returns values of which at least one changes whenever the files do: the file names, and the
/// number and end of the current MANIFEST. Returns `None` if the directory cannot be listed.
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

fn open_once(dir: &Path, options: &Options, held: &mut Files) -> Result<Opened> {
    // The names are listed before the MANIFEST is read. Each log that the MANIFEST needs is then
    // either listed or created later.
    let files = directory::list(&*options.fs, dir)?;
    let comparator = options.comparator.name();
    let recovered = manifest::recover_beside_writer(&*options.fs, dir, comparator)?;
    directory::check_files(dir, &files, &recovered, options.paranoid_checks)?;
    hold_tables(&*options.fs, dir, &recovered, held)?;
    let mut with_logs = held.clone();
    let live_logs = directory::live_logs(&files, &recovered);
    let logs = hold_logs(&*options.fs, dir, &live_logs, &mut with_logs)?;
    let fs = HeldFs::new(options.fs.clone(), held.clone());
    let unheld_tables = fs.unheld() as u64;
    let fs: Arc<dyn Fs> = Arc::new(fs);
    let order = InternalComparator::new(options.comparator.clone());
    let replay = LogReplay {
        fs: &HeldFs::new(options.fs.clone(), with_logs),
        dir,
        order: &order,
        write_buffer_bytes: usize::MAX,
        paranoid: options.paranoid_checks,
        beside_writer: true,
    };
    let mut replayed = replay.run(&logs, recovered.last_seq, |_| Ok(()))?;
    // The trash stays empty: no edit ever drops a table of this version.
    let trash = Arc::new(Trash::new(fs.clone(), dir));
    let version = Version::default().apply(&recovered.edit, &order, &trash)?;
    let mem = match replayed.memtables.pop_back() {
        Some(last) => last.mem,
        None => Arc::new(Memtable::new(order.user(), 0)),
    };
    let view = ReadView { mem, imm: Vec::new(), version: Arc::new(version) };
    let (tables, block_cache) = open::table_cache(&fs, dir, options, &order);
    let tables = Arc::new(tables);
    let state = ReadState::new(order, tables, block_cache, trash, view, replayed.last_seq, None);
    Ok(Opened { state: Arc::new(state), recovery: replayed.recovery, unheld_tables })
}
