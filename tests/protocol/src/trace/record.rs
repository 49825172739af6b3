//! A filesystem that records the operations on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};

use minikv::fs::sim::SimFs;
use minikv::fs::{EntryKind, FileLock, Fs, LockHolder, ReadFile, WriteFile};

use crate::disk::Id;

/// A recorded step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation on the filesystem, and whether it succeeded.
    Op(FileOp, PathBuf, bool),
    /// A database is about to be opened.
    Open,
    /// The open has returned, and whether it succeeded.
    Opened(bool),
    /// A write has returned: whether it was to be synced, and whether it succeeded.
    Written(bool, bool),
    /// A sync of the database has succeeded.
    Synced,
    /// A `resume` has succeeded.
    Resumed,
    /// A reader begins, or ends.
    Holds(bool),
    /// A reader has found these writes.
    Read(Vec<Id>),
    /// A note of the workload, by its number.
    Note(usize),
    /// The database was closed or killed.
    Stop,
}

/// An operation on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    Create,
    /// Bytes are appended.
    Write(Vec<u8>),
    Sync,
    /// A file is cut to this length.
    SetLen(u64),
    SyncDir,
    /// A file gets another name.
    Rename(PathBuf),
    Remove,
}

/// The events so far, each with the number of operations of the simulation before it.
pub type Events = Vec<(u64, Event)>;

/// A simulated filesystem that records the operations of one process, until it is told to stop.
#[derive(Clone, Debug)]
pub struct RecordingFs {
    sim: SimFs,
    events: Arc<Mutex<Events>>,
    is_over: Arc<AtomicBool>,
}

impl RecordingFs {
    /// Records the operations on `sim`.
    pub fn new(sim: SimFs) -> RecordingFs {
        RecordingFs { sim, events: Arc::default(), is_over: Arc::default() }
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        if !self.is_over.load(SeqCst) {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.push((self.sim.op_count(), event));
        }
    }

    /// Stops recording. Returns all events.
    pub fn finish(&self) -> Events {
        self.is_over.store(true, SeqCst);
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs an operation and records it. Operations of several threads are recorded in the order in
    /// which they take effect.
    fn run<T>(
        &self,
        op: FileOp,
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work();
        if !self.is_over.load(SeqCst) {
            let event = Event::Op(op, path.to_path_buf(), result.is_ok());
            events.push((self.sim.op_count(), event));
        }
        result
    }

    fn file(&self, path: &Path, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(RecordingFile { fs: self.clone(), path: path.to_path_buf(), file })
    }
}

impl Fs for RecordingFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.sim.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = self.run(FileOp::Create, path, || self.sim.create(path))?;
        Ok(self.file(path, file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(self.file(path, self.sim.append(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(FileOp::Rename(to.to_path_buf()), from, || self.sim.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(FileOp::Remove, path, || self.sim.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.sim.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.sim.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.sim.list(path)
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        self.sim.entries(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.run(FileOp::SyncDir, path, || self.sim.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.sim.exists(path)
    }

    fn is_real_dir(&self, path: &Path) -> io::Result<bool> {
        self.sim.is_real_dir(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Fs::len(&self.sim, path)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        self.sim.lock(path)
    }
}

/// A file whose changes are recorded.
#[derive(Debug)]
struct RecordingFile {
    fs: RecordingFs,
    path: PathBuf,
    file: Box<dyn WriteFile>,
}

impl WriteFile for RecordingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = &mut self.file;
        self.fs.run(FileOp::Write(bytes.to_vec()), &self.path, || file.write(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = &mut self.file;
        self.fs.run(FileOp::Sync, &self.path, || file.sync())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let file = &mut self.file;
        self.fs.run(FileOp::SetLen(len), &self.path, || file.set_len(len))
    }
}
