//! A filesystem that can crash: what would survive a loss of power is known, chosen and tried.
//!
//! [`SimFs`] lives in memory and behaves as a disk under Linux does at its worst. It knows which
//! bytes and names are *durable*: bytes by a sync of the file, names by a sync of the directory,
//! and nothing else by anything else; closing a file syncs nothing. From any moment, or after any
//! operation of a recorded history, [`SimFs::crash_image`] makes the filesystem that a crash
//! would leave. [`SimFs::inject`] makes operations fail.
//!
//! It is deterministic: the same operations, seed and plans give the same images. Images share
//! what they have in common, so that thousands of them are cheap.
//!
//! The model, where filesystems differ:
//! - A write is durable by sectors, each by itself, in no order; the length of a file is apart
//!   from its bytes. Between two syncs a sector may have reached the disk after any of its
//!   writes.
//! - Creating, linking, renaming and removing are atomic and survive each by itself, in no order.
//!   A rename from one directory to another is durable when both are synced.
//! - A directory that is made is a name in its parent, and durable when that is synced.
//! - A change of a name that is durable makes earlier ones of that name obsolete.
//!
//! # Examples
//!
//! A program that forgets to sync the directory loses its file:
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
//! Every crash point of a program, with several crashes each:
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
mod rng;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::sync::{Mutex, RwLock};

pub use crash::{CrashPlan, Holes};
pub use fault::Fault;
pub use journal::{JournalEntry, OpCounts, OpKind, Operation};

use fault::{Action, Faults, os_error};
use history::History;
use rng::Rng;
use state::{Effect, FileId, State};

/// A filesystem in memory that crashes and fails on demand. Clones are the same filesystem.
///
/// See the [module](self) for what it models.
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
    state: State,
    /// The number of the last mutating operation, going on from the filesystem that this one is
    /// an image of.
    seq: u64,
    /// `seq` when this filesystem was made.
    base_seq: u64,
    next_file: FileId,
    counts: OpCounts,
    faults: Faults,
    capacity_bytes: Option<u64>,
    /// How many handles each open file has.
    open: BTreeMap<FileId, u64>,
    locked: BTreeSet<FileId>,
    history: Option<History>,
    rng: Rng,
}

impl SimFs {
    /// An empty filesystem. The seed decides which bits are flipped; each crash has its own.
    pub fn new(seed: u64) -> SimFs {
        SimFs::with_state(State::default(), 0, 1, seed)
    }

    fn with_state(state: State, seq: u64, next_file: FileId, seed: u64) -> SimFs {
        let inner = Inner {
            state,
            seq,
            base_seq: seq,
            next_file,
            counts: OpCounts::default(),
            faults: Faults::default(),
            capacity_bytes: None,
            open: BTreeMap::new(),
            locked: BTreeSet::new(),
            history: None,
            rng: Rng::new(seed),
        };
        SimFs { shared: Arc::new(Shared { hook: RwLock::new(None), inner: Mutex::new(inner) }) }
    }

    /// How many mutating operations were done or tried: the number of the last one.
    ///
    /// These are all that change files or names or make them durable, and the taking of a lock.
    /// Making a directory is one for each directory made. A write that goes on after a fault is
    /// several.
    pub fn op_count(&self) -> u64 {
        self.shared.inner.lock().op_number()
    }

    /// What was done so far, by kind.
    pub fn counts(&self) -> OpCounts {
        self.shared.inner.lock().counts.clone()
    }

    /// How many changes are not durable: what a crash now may take.
    pub fn pending_ops(&self) -> u64 {
        self.shared.inner.lock().state.pending_seqs().len() as u64
    }

    /// Remembers every operation from now on, for [`CrashPlan::at_op`] and [`SimFs::journal`].
    /// Forgets what was remembered before.
    pub fn record_history(&self) {
        let mut inner = self.shared.inner.lock();
        inner.history = Some(History::new(inner.seq, &inner.state));
    }

    /// The mutating operations since [`SimFs::record_history`]; none if it was not called.
    pub fn journal(&self) -> Vec<JournalEntry> {
        let inner = self.shared.inner.lock();
        inner.history.as_ref().map(|history| history.journal.clone()).unwrap_or_default()
    }

    /// The filesystem as a crash leaves it. This one goes on undisturbed.
    ///
    /// The image has no open files, locks, faults, hook, capacity or history, and its operations
    /// are counted from 1 again.
    ///
    /// # Panics
    ///
    /// If the plan names an operation that was not recorded.
    pub fn crash_image(&self, plan: &CrashPlan) -> SimFs {
        let inner = self.shared.inner.lock();
        let image = match plan.op() {
            None => crash::image(&inner.state, plan),
            Some(number) => {
                assert!(number <= inner.op_number(), "{plan}: there was no such operation yet");
                let past = inner
                    .history
                    .as_ref()
                    .and_then(|history| history.state_after(inner.base_seq.saturating_add(number)));
                crash::image(&past.expect("SimFs::record_history comes before"), plan)
            }
        };
        let seed = inner.rng.clone().next();
        SimFs::with_state(image, inner.seq, inner.next_file, seed)
    }

    /// Makes everything durable, as if the system had been idle for long.
    pub fn sync_all(&self) {
        self.shared.inner.lock().commit(Effect::SyncAll);
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        self.shared.inner.lock().faults.push(fault);
    }

    /// Takes back every fault that waits or is sticky.
    pub fn clear_faults(&self) {
        self.shared.inner.lock().faults.clear();
    }

    /// How often a fault has struck.
    pub fn fault_count(&self) -> u64 {
        self.shared.inner.lock().faults.strikes
    }

    /// How many faults still wait or are sticky.
    pub fn waiting_faults(&self) -> usize {
        self.shared.inner.lock().faults.waiting()
    }

    /// Sets how many bytes of files fit, in pages of 4096; `None` is no limit. A write of more
    /// writes what fits and fails. Names and lengths take no space.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.inner.lock().capacity_bytes = bytes;
    }

    /// The bytes that all files take, in pages of 4096. A removed file takes space while it is
    /// open.
    pub fn used_bytes(&self) -> u64 {
        self.shared.inner.lock().used_bytes()
    }

    /// Calls `hook` before every operation, in the thread that does it and with nothing locked:
    /// it may wait, which makes the operation stall, or take crash images. A write that goes on
    /// after a fault, or a read, calls it once for every try.
    pub fn set_hook(&self, hook: impl Fn(&Operation<'_>) + Send + Sync + 'static) {
        *self.shared.hook.write() = Some(Arc::new(hook));
    }

    /// Calls no hook any more.
    pub fn clear_hook(&self) {
        *self.shared.hook.write() = None;
    }

    /// Changes the bits of `mask` in the byte at `offset` of a file, on the disk and in what is
    /// read. Beyond the end of the file it does nothing.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn damage(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut inner = self.shared.inner.lock();
        let file = inner.state.names.file(path)?;
        inner.commit(Effect::Damage { file, offset, mask });
        Ok(())
    }

    /// A hash of all paths of files and their content as it is read. Images with the same one
    /// need to be tried only once.
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

    /// Does one operation: the hook, the count, the fault that strikes it, and then `work`, which
    /// sees to the faults that are more than a failure.
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
            history.journal.push(JournalEntry::new(number, &op, error));
        }
        // What a failed operation opened or locked is closed, for which `inner` is needed.
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
        self.state.apply(self.seq, &effect);
        if matches!(effect, Effect::SyncDir { .. } | Effect::SyncAll) {
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

/// Tells images apart; it resists chance, not intent.
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
