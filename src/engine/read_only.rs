//! Opening for reading only: a view made of what the files say at one moment. Nothing in the
//! directory is touched, and no lock is taken, so another process may be writing meanwhile.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::directory;
use crate::engine::memtable::Memtable;
use crate::engine::obsolete::Trash;
use crate::engine::open::{self, Recovery, Replay};
use crate::engine::options::Options;
use crate::engine::version::Version;
use crate::engine::version_set::{self, Recovered};
use crate::engine::view::{ReadState, ReadView};
use crate::format::key::InternalComparator;
use crate::format::name;
use crate::fs::{FileLock, Fs, LockHolder, ReadFile, WriteFile};

/// How often a view is made anew because a writer changed the files meanwhile.
const MAX_TRIES: usize = 50;

/// How often logs that seem to have lost something are read: one may have grown, and another
/// begun, since its length was asked.
const MAX_LOST_TRIES: usize = 3;

/// Tables held open from the start, so that a writer cannot remove them. More are opened when
/// they are asked for.
const MAX_PINNED_TABLES: usize = 400;

/// What a database opened for reading only is.
#[derive(Debug)]
pub struct Opened {
    /// What reads need; its view never changes.
    pub state: Arc<ReadState>,
    /// What was found in the logs.
    pub recovery: Recovery,
}

/// Opens the database in `dir`.
///
/// # Errors
/// [`Error::DatabaseMissing`], [`Error::Unsupported`] for another comparator, corruption and I/O
/// errors.
pub fn open(dir: &Path, options: &Options) -> Result<Opened> {
    let fs = &*options.fs;
    if !directory::has_database(fs, dir)? {
        return Err(Error::DatabaseMissing { path: dir.to_path_buf() });
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let before = version_set::recover(fs, dir, options.comparator.name())?;
        let opened = open_once(dir, options, &before);
        let after = version_set::recover(fs, dir, options.comparator.name())?;
        let unchanged =
            before.manifest_number == after.manifest_number && before.valid_end == after.valid_end;
        let loses = opened.as_ref().is_ok_and(|opened| !opened.recovery.lost.is_empty());
        if (unchanged && (!loses || tries >= MAX_LOST_TRIES)) || tries == MAX_TRIES {
            return opened;
        }
    }
}

fn open_once(dir: &Path, options: &Options, recovered: &Recovered) -> Result<Opened> {
    let files = directory::list(&*options.fs, dir)?;
    directory::check_files(dir, &files, recovered, options.paranoid_checks)?;
    let order = InternalComparator::new(options.comparator.clone());
    let fs: Arc<dyn Fs> = Arc::new(PinnedFs::new(options.fs.clone(), dir, recovered)?);
    let replay = Replay {
        fs: &*fs,
        dir,
        order: &order,
        write_buffer_bytes: usize::MAX,
        paranoid: options.paranoid_checks,
    };
    let logs = directory::live_logs(&files, recovered);
    let mut replayed = replay.run(&logs, recovered.last_seq, |_| Ok(()))?;
    // Never thrown into: no edit ever drops a table of this version.
    let trash = Arc::new(Trash::new(fs.clone(), dir));
    let version = Version::default().apply(&recovered.edit, &order, &trash)?;
    let mem = match replayed.memtables.pop_back() {
        Some(last) => last.mem,
        None => Arc::new(Memtable::new(order.user(), 0)),
    };
    let view = ReadView { mem, imm: Vec::new(), version: Arc::new(version) };
    let (tables, block_cache) = open::table_cache(&fs, dir, options, &order);
    let state = ReadState::new(order, tables, block_cache, trash, view, replayed.last_seq, None);
    Ok(Opened { state: Arc::new(state), recovery: replayed.recovery })
}

/// A filesystem that holds tables open and changes nothing.
#[derive(Debug)]
struct PinnedFs {
    inner: Arc<dyn Fs>,
    pinned: BTreeMap<PathBuf, Arc<dyn ReadFile>>,
}

impl PinnedFs {
    fn new(inner: Arc<dyn Fs>, dir: &Path, recovered: &Recovered) -> Result<PinnedFs> {
        let mut pinned = BTreeMap::new();
        for file in recovered.edit.new_files.iter().take(MAX_PINNED_TABLES) {
            let path = dir.join(name::table_name(file.number));
            match inner.open_table(&path) {
                Ok(file) => {
                    pinned.insert(path, file);
                }
                // It may have the older ending; or a writer has removed it, and the view will be
                // made anew.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("open", path, error)),
            }
        }
        Ok(PinnedFs { inner, pinned })
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opened for reading only"))
}

impl Fs for PinnedFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.pinned.get(path) {
            Some(file) => Ok(file.clone()),
            None => self.inner.open(path),
        }
    }

    fn open_table(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.pinned.get(path) {
            Some(file) => Ok(file.clone()),
            None => self.inner.open_table(path),
        }
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        read_only()
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        read_only()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.inner.len(path)
    }

    fn lock(&self, _: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        read_only()
    }
}
