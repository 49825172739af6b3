//! A simulated filesystem that can lose power and fail.
//!
//! [`SimFs`] keeps its files in memory and behaves like the worst disk that Linux allows. It tracks
//! which bytes and names are *durable*. Bytes become durable only by a sync of the file, and names
//! only by a sync of the directory; closing a file syncs nothing. [`SimFs::crash_image`] returns
//! the filesystem that a crash would leave, now or after any operation of a recorded history.
//! [`SimFs::inject`] makes operations fail.
//!
//! The simulation is deterministic: the same operations, seed and plans give the same images.
//! Images share the memory of equal contents, so that thousands of images are cheap.
//!
//! Real filesystems differ in what a crash leaves. This is the model:
//! - The sectors of a write become durable independently and in any order, and so does the length
//!   of the file. If a sector was written several times since the last sync, the disk may have its
//!   contents after any of these writes.
//! - Creations, links, renames and removals are atomic. They survive independently and in any
//!   order. A rename from one directory to another is durable when both directories are synced.
//! - A new directory is a name in its parent, and durable when the parent is synced.
//! - A durable change of a name makes earlier changes of that name obsolete.
//!
//! # Examples
//!
//! A program that does not sync the directory loses its file:
//!
//! ```
//! use minikv::fs::Fs;
//! use minikv::fs::sim::{CrashPlan, SimFs};
//! use std::path::Path;
//!
//! let fs = SimFs::new(7);
//! let path = Path::new("/note");
//! let mut file = fs.create(path)?;
//! file.write(b"remember")?;
//! file.sync()?;
//! assert!(!fs.crash_image(&CrashPlan::strict()).exists(path)?);
//!
//! fs.sync_dir(Path::new("/"))?;
//! assert_eq!(fs.crash_image(&CrashPlan::strict()).len(path)?, 8);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A check of every crash point of a program, with several crashes at each point:
//!
//! ```
//! use minikv::fs::Fs;
//! use minikv::fs::sim::{CrashPlan, SimFs};
//! use std::path::Path;
//!
//! let fs = SimFs::new(7);
//! fs.record_history();
//! let (new, current) = (Path::new("/new"), Path::new("/current"));
//! for content in [b"one", b"two"] {
//!     let mut file = fs.create(new)?;
//!     file.write(content)?;
//!     file.sync()?;
//!     fs.rename(new, current)?;
//!     fs.sync_dir(Path::new("/"))?;
//! }
//! for number in 0..=fs.op_count() {
//!     for seed in 0..20 {
//!         let plan = CrashPlan::random(seed).at_op(number);
//!         let image = fs.crash_image(&plan);
//!         if image.exists(current)? {
//!             assert_eq!(image.len(current)?, 3, "{plan}");
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod crash;
mod fault;
mod files;
mod history;
mod journal;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

pub use crash::CrashPlan;
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub use crash::Holes;
pub use fault::Fault;
#[doc(hidden)]
pub use fault::Lack;
use fault::{Action, Faults};
use history::History;
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub use journal::{JournalEntry, OpCounts};
pub use journal::{OpKind, Operation};
use state::{DiskState, Effect, FileId};

use super::namespace::NameOp;
use super::system::os_error;
use crate::base::random::Rng;
use crate::base::sync::{Mutex, RwLock};

/// A filesystem in memory that crashes and fails on demand. Clones are handles to the same
/// filesystem.
///
/// See the [module](self) for the model.
#[derive(Clone)]
pub struct SimFs {
    shared: Arc<Shared>,
}

type Hook = Arc<dyn Fn(&Operation<'_>) + Send + Sync>;

struct Shared {
    hook: RwLock<Option<Hook>>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: DiskState,
    /// Number of the last mutating operation. In a crash image, the numbers continue from those of
    /// the original filesystem.
    seq: u64,
    /// The value of `seq` when this filesystem was created.
    base_seq: u64,
    next_file: FileId,
    counts: journal::OpCounts,
    faults: Faults,
    capacity_bytes: Option<u64>,
    lacks: BTreeSet<Lack>,
    /// Number of handles to each open file.
    open: BTreeMap<FileId, u64>,
    locked: BTreeSet<FileId>,
    history: Option<History>,
    rng: Rng,
}

impl SimFs {
    /// Creates an empty filesystem. The seed determines which bits faults flip; each crash plan has
    /// a seed of its own.
    pub fn new(seed: u64) -> SimFs {
        SimFs::with_state(DiskState::default(), 0, 1, seed)
    }

    fn with_state(state: DiskState, seq: u64, next_file: FileId, seed: u64) -> SimFs {
        let inner = Inner {
            state,
            seq,
            base_seq: seq,
            next_file,
            counts: journal::OpCounts::default(),
            faults: Faults::default(),
            capacity_bytes: None,
            lacks: BTreeSet::new(),
            open: BTreeMap::new(),
            locked: BTreeSet::new(),
            history: None,
            rng: Rng::new(seed),
        };
        SimFs { shared: Arc::new(Shared { hook: RwLock::new(None), inner: Mutex::new(inner) }) }
    }

    /// Returns the number of mutating operations done or attempted, which is also the number of the
    /// last mutating operation.
    ///
    /// Operations are mutating if they change files or names, make them durable, or take a lock.
    /// Creating directories counts once per directory. A write that continues after a fault counts
    /// once per attempt.
    pub fn op_count(&self) -> u64 {
        self.shared.inner.lock().op_number()
    }

    /// Starts recording every operation, for [`CrashPlan::at_op`]. Discards earlier recordings.
    pub fn record_history(&self) {
        let mut inner = self.shared.inner.lock();
        inner.history = Some(History::new(inner.seq, &inner.state));
    }

    /// Returns the filesystem that a crash would leave. This filesystem is not affected.
    ///
    /// The image has no open files, locks, faults, hook, capacity or history, lacks what this
    /// filesystem lacks, and counts its operations from 1.
    ///
    /// # Panics
    ///
    /// If the plan names an operation that is not in the recorded history.
    pub fn crash_image(&self, plan: &CrashPlan) -> SimFs {
        let inner = self.shared.inner.lock();
        let in_order = inner.lacks.contains(&Lack::NamesOutOfOrder);
        let image = match plan.op() {
            None => crash::image(&inner.state, plan, in_order),
            Some(number) => {
                assert!(number <= inner.op_number(), "{plan}: there was no such operation yet");
                let past = inner
                    .history
                    .as_ref()
                    .and_then(|history| history.state_after(inner.base_seq.saturating_add(number)));
                let past = past.expect("SimFs::record_history comes before");
                crash::image(&past, plan, in_order)
            }
        };
        let seed = inner.rng.clone().next_u64();
        let image = SimFs::with_state(image, inner.seq, inner.next_file, seed);
        image.shared.inner.lock().lacks.clone_from(&inner.lacks);
        image
    }

    /// Makes everything durable, as if the system had been idle for a long time.
    pub fn sync_all(&self) {
        self.shared.inner.lock().commit(Effect::SyncAll);
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.inner.lock().faults.push(fault);
    }

    /// Removes all faults, waiting or sticky.
    pub fn clear_faults(&self) {
        self.shared.inner.lock().faults.clear();
    }

    /// Sets the capacity for file contents, in bytes; `None` means no limit. Contents take whole
    /// pages of 4096 bytes. A write that exceeds the capacity writes the bytes that fit, and fails.
    /// Names and lengths take no space.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.inner.lock().capacity_bytes = bytes;
    }

    /// Sets a hook that is called before every operation, in the thread of the operation. No locks
    /// are held, so the hook may block, which stalls the operation, or take crash images. For
    /// reads, and for writes that continue after a fault, the hook is called once per attempt.
    pub fn set_hook(&self, hook: impl Fn(&Operation<'_>) + Send + Sync + 'static) {
        *self.shared.hook.write() = Some(Arc::new(hook));
    }

    /// In the byte at `offset` of a file, flips the bits that are set in `mask`, both on the disk
    /// and in later reads. Does nothing past the end of the file.
    ///
    /// # Errors
    ///
    /// If the file does not exist.
    pub fn damage(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut inner = self.shared.inner.lock();
        let file = inner.state.names.file(path)?;
        inner.commit(Effect::Damage { file, offset, mask });
        Ok(())
    }
}

/// Methods that show the state of the simulation, for this repository's own tests.
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
impl SimFs {
    /// Makes the filesystem, and the images that crashes leave of it, lack something from now on.
    pub fn set_lack(&self, lack: Lack) {
        self.shared.inner.lock().lacks.insert(lack);
    }

    /// Returns the number of operations so far, by kind.
    pub fn counts(&self) -> OpCounts {
        self.shared.inner.lock().counts.clone()
    }

    /// Returns the number of changes that are not durable, which a crash now may undo.
    pub fn pending_ops(&self) -> u64 {
        self.shared.inner.lock().state.pending_seqs().len() as u64
    }

    /// Returns the mutating operations since [`SimFs::record_history`], or an empty list if it was
    /// not called.
    pub fn journal(&self) -> Vec<JournalEntry> {
        let inner = self.shared.inner.lock();
        inner.history.as_ref().map(|history| history.journal.clone()).unwrap_or_default()
    }

    /// Returns how many times a fault has struck.
    pub fn fault_count(&self) -> u64 {
        self.shared.inner.lock().faults.strikes
    }

    /// Returns the number of faults that are waiting or sticky.
    pub fn waiting_faults(&self) -> usize {
        self.shared.inner.lock().faults.waiting()
    }

    /// Returns the disk space that all files take, in bytes. Space is allocated in pages of 4096
    /// bytes. A removed file takes space while it is open.
    pub fn used_bytes(&self) -> u64 {
        self.shared.inner.lock().used_bytes()
    }

    /// Removes the hook.
    pub fn clear_hook(&self) {
        *self.shared.hook.write() = None;
    }

    /// Returns a hash of the paths and contents of all files, as reads return them. Images with the
    /// same fingerprint need to be tested only once.
    pub fn fingerprint(&self) -> u64 {
        let inner = self.shared.inner.lock();
        let mut hash = Fingerprint::default();
        let mut buf = Vec::new();
        for (path, file) in inner.state.names.files() {
            hash.add(path.as_os_str().as_encoded_bytes());
            let Some(file) = inner.state.files.get(&file) else { continue };
            buf.resize(usize::try_from(file.live.len()).unwrap_or(usize::MAX), 0);
            file.live.read_at(&mut buf, 0);
            hash.add(&buf);
        }
        hash.0
    }
}

impl SimFs {
    /// Runs one operation: calls the hook, counts the operation, and either applies a fault that
    /// makes the operation fail or calls `work`, which handles the other faults. Returns the result
    /// of the operation.
    fn run<T>(
        &self,
        op: Operation<'_>,
        work: impl FnOnce(&mut Inner, Option<Action>) -> io::Result<T>,
    ) -> io::Result<T> {
        let hook = self.shared.hook.read().clone();
        if let Some(hook) = hook {
            hook(&op);
        }
        let mut inner = self.shared.inner.lock();
        if op.kind.is_mutating() {
            inner.seq += 1;
        }
        if op.kind != OpKind::Read {
            inner.counts.add(op.kind);
        }
        let number = inner.op_number();
        let fault = inner.faults.strike(&op, number);
        let mut done_in_vain = None;
        let result = match fault {
            Some(Action::Fail(code)) => Err(os_error(code)),
            Some(Action::FailAfter(code)) => work(&mut inner, None).and_then(|done| {
                done_in_vain = Some(done);
                Err(os_error(code))
            }),
            _ => work(&mut inner, fault),
        };
        if op.kind.is_mutating()
            && let Some(history) = &mut inner.history
        {
            let error = result.as_ref().err().map(ToString::to_string);
            history.journal.push(journal::JournalEntry::new(number, &op, error));
        }
        // The guard of `inner` is dropped first: `done_in_vain` may own a file or lock whose drop
        // locks `inner` again.
        drop(inner);
        drop(done_in_vain);
        result
    }
}

impl Inner {
    fn op_number(&self) -> u64 {
        self.seq - self.base_seq
    }

    fn commit(&mut self, effect: Effect) {
        if let Effect::Name(op) = &effect
            && self.lacks.contains(&Lack::DirectorySync)
        {
            let dirs: Vec<_> = op.locations().map(|location| location.dir).collect();
            self.apply(effect);
            dirs.into_iter().for_each(|dir| self.apply(Effect::SyncDir { dir }));
            return;
        }
        let writes_journal = self.lacks.contains(&Lack::NamesOutOfOrder)
            && matches!(effect, Effect::Sync { .. } | Effect::Name(NameOp::Rename { .. }));
        self.apply(effect);
        if writes_journal {
            self.apply(Effect::SyncNames);
        }
    }

    fn apply(&mut self, effect: Effect) {
        self.state.apply(self.seq, &effect);
        if matches!(effect, Effect::SyncDir { .. } | Effect::SyncNames | Effect::SyncAll) {
            let open = &self.open;
            self.state.forget_unreachable(|file| open.contains_key(&file));
        }
        if let Some(history) = &mut self.history {
            history.push(self.seq, effect, &self.state);
        }
    }

    fn used_bytes(&self) -> u64 {
        let named = self.state.names.named_files();
        let is_used = |id: &FileId| named.contains(id) || self.open.contains_key(id);
        let used = self.state.files.iter().filter(|(id, _)| is_used(id));
        used.map(|(_, file)| file.live.allocated_bytes()).sum()
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.shared.inner.lock();
        f.debug_struct("SimFs")
            .field("files", &inner.state.names.files().len())
            .field("op_count", &inner.op_number())
            .field("pending_ops", &inner.state.pending_seqs().len())
            .finish_non_exhaustive()
    }
}

/// A hash that distinguishes images. It is not secure against forged contents.
#[derive(Default)]
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.mix(u64::from_le_bytes(padded));
        }
    }

    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}
