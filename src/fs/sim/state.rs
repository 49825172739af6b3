//! The state of the simulated disk: the contents that reads return, the durable contents, and the
//! changes in between.
//!
//! A [`DiskState`] changes only by [`DiskState::apply`] of an [`Effect`], so that any past state
//! can be rebuilt from the recorded effects. Clones share pages, files and directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::super::namespace::{DirId, Location, NameOp, Namespace, Node};
use super::content::Content;

/// File ID, independent of the file's names.
pub(super) type FileId = u64;

/// The effect of an operation.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Name(NameOp<FileId>),
    Write {
        file: FileId,
        offset: u64,
        data: Bytes,
    },
    SetLen {
        file: FileId,
        len: u64,
    },
    Sync {
        file: FileId,
    },
    /// A failed sync that dropped the unsynced pages: reads still return them, but they are not on
    /// the disk and no later sync writes them.
    LosePending {
        file: FileId,
    },
    SyncDir {
        dir: DirId,
    },
    /// All names become durable.
    SyncNames,
    /// Bits on the medium flip.
    Damage {
        file: FileId,
        offset: u64,
        mask: u8,
    },
    /// Everything becomes durable.
    SyncAll,
}

/// An unsynced change of a file.
#[derive(Clone, Debug)]
pub(super) struct FileEvent {
    /// Sequence number of the operation that made the change. Sequence numbers only increase.
    pub seq: u64,
    pub change: FileChange,
    /// Length of the file after the change, in bytes.
    pub len_after: u64,
}

#[derive(Clone, Debug)]
pub(super) enum FileChange {
    Write { offset: u64, data: Bytes },
    SetLen,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    /// Contents that reads return.
    pub live: Arc<Content>,
    /// Contents that are certain to be on the disk.
    pub durable: Arc<Content>,
    /// The changes from `durable` to `live`, in order.
    pub pending: Vec<FileEvent>,
    /// Whether a failed sync dropped pages, so that a later sync does not make all of `live`
    /// durable.
    pub lost: bool,
    /// The shortest length to which the file was set since the last successful sync.
    cut: Option<u64>,
}

impl FileState {
    /// Creates a file without unsynced changes.
    pub(super) fn clean(content: Arc<Content>) -> FileState {
        FileState { live: content.clone(), durable: content, ..FileState::default() }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.pending.is_empty() && Arc::ptr_eq(&self.live, &self.durable)
    }

    fn push(&mut self, seq: u64, change: FileChange) {
        let len_after = self.live.len();
        self.pending.push(FileEvent { seq, change, len_after });
    }

    fn set_len(&mut self, seq: u64, len: u64) {
        Arc::make_mut(&mut self.live).set_len(len);
        self.cut = Some(self.cut.map_or(len, |cut| cut.min(len)));
        self.push(seq, FileChange::SetLen);
    }

    fn sync(&mut self) {
        let events = std::mem::take(&mut self.pending);
        let cut = self.cut.take();
        if !self.lost {
            self.durable = self.live.clone();
            return;
        }
        // The sync writes whole pages, like a page cache, but only pages that were written after
        // the failed sync. The dropped pages stay lost.
        let durable = Arc::make_mut(&mut self.durable);
        durable.set_len(durable.len().min(cut.unwrap_or(u64::MAX)));
        for event in events {
            if let FileChange::Write { offset, data } = event.change {
                durable.copy_pages(&self.live, offset, data.len());
            }
        }
        durable.set_len(self.live.len());
    }
}

/// A change of a name that is not yet durable.
#[derive(Clone, Debug)]
pub(super) struct PendingName {
    pub seq: u64,
    pub op: NameOp<FileId>,
    /// The directories that must be synced to make the change durable.
    unsynced: BTreeSet<DirId>,
    /// Whether the file was synced after it got the name.
    pub file_synced: bool,
}

impl PendingName {
    fn gives_name_to(&self, file: FileId) -> bool {
        match &self.op {
            NameOp::Set { node, .. } | NameOp::Rename { node, .. } => *node == Node::File(file),
            NameOp::Remove { .. } => false,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    /// The names that reads see.
    pub names: Namespace<FileId>,
    /// The names that are certain to be on the disk.
    pub durable_names: Namespace<FileId>,
    pub pending_names: Vec<PendingName>,
    pub files: BTreeMap<FileId, Arc<FileState>>,
}

impl DiskState {
    /// Creates a state with the given names and files, and with no unsynced changes.
    pub(super) fn clean(
        names: Namespace<FileId>,
        files: BTreeMap<FileId, Arc<FileState>>,
    ) -> DiskState {
        DiskState { durable_names: names.clone(), names, pending_names: Vec::new(), files }
    }

    pub(super) fn apply(&mut self, seq: u64, effect: &Effect) {
        match effect {
            Effect::Name(op) => self.apply_name(seq, op),
            Effect::Write { file, offset, data } => self.change(*file, |file| {
                Arc::make_mut(&mut file.live).write_at(*offset, data);
                file.push(seq, FileChange::Write { offset: *offset, data: data.clone() });
            }),
            Effect::SetLen { file, len } => self.change(*file, |file| file.set_len(seq, *len)),
            Effect::Sync { file } => {
                self.change(*file, FileState::sync);
                for name in &mut self.pending_names {
                    name.file_synced |= name.gives_name_to(*file);
                }
            }
            Effect::LosePending { file } => self.change(*file, |file| {
                file.pending.clear();
                file.lost = true;
            }),
            Effect::SyncDir { dir } => self.sync_dir(*dir),
            Effect::SyncNames => self.sync_names(),
            Effect::Damage { file, offset, mask } => self.change(*file, |file| {
                let was_clean = file.is_clean();
                Arc::make_mut(&mut file.live).flip(*offset, *mask);
                if was_clean {
                    file.durable = file.live.clone();
                } else {
                    Arc::make_mut(&mut file.durable).flip(*offset, *mask);
                }
            }),
            Effect::SyncAll => self.sync_all(),
        }
    }

    /// Changes a file, unless it no longer exists.
    fn change(&mut self, file: FileId, change: impl FnOnce(&mut FileState)) {
        if let Some(file) = self.files.get_mut(&file) {
            change(Arc::make_mut(file));
        }
    }

    fn apply_name(&mut self, seq: u64, op: &NameOp<FileId>) {
        if let NameOp::Set { node: Node::File(file), .. } = op {
            self.files.entry(*file).or_default();
        }
        self.names.apply(op);
        let unsynced = op.locations().map(|location| location.dir).collect();
        let op = op.clone();
        self.pending_names.push(PendingName { seq, op, unsynced, file_synced: false });
    }

    /// Makes name changes durable, except those that still need another directory to be synced. A
    /// change that becomes durable also makes earlier changes of the same names durable, because a
    /// directory entry on disk always has its newest content.
    fn sync_dir(&mut self, dir: DirId) {
        let mut settled: BTreeSet<Location> = BTreeSet::new();
        for name in self.pending_names.iter_mut().rev() {
            name.unsynced.remove(&dir);
            if name.unsynced.is_empty()
                || name.op.locations().any(|location| settled.contains(location))
            {
                name.unsynced.clear();
                settled.extend(name.op.locations().cloned());
            }
        }
        let durable_names = &mut self.durable_names;
        self.pending_names.retain(|name| {
            if name.unsynced.is_empty() {
                durable_names.apply(&name.op);
            }
            !name.unsynced.is_empty()
        });
    }

    fn sync_names(&mut self) {
        self.pending_names.clear();
        self.durable_names = self.names.clone();
    }

    fn sync_all(&mut self) {
        self.sync_names();
        for file in self.files.values_mut().filter(|file| !file.is_clean()) {
            *file = Arc::new(FileState::clean(file.live.clone()));
        }
    }

    /// Returns the sequence numbers of the operations that made the unsynced changes, in order.
    /// Leaves out changes of files that have no name now and cannot have one after a crash: such
    /// files exist only as long as they are open.
    pub(super) fn pending_seqs(&self) -> Vec<u64> {
        let reachable = self.reachable_files();
        let of_files = self.files.iter().filter(|(file, _)| reachable.contains(file));
        let events = of_files.flat_map(|(_, file)| file.pending.iter().map(|event| event.seq));
        let mut seqs: Vec<u64> = self.pending_names.iter().map(|name| name.seq).collect();
        seqs.extend(events);
        seqs.sort_unstable();
        seqs
    }

    /// Returns the files that have a name now, or may have one after some crash.
    fn reachable_files(&self) -> BTreeSet<FileId> {
        let mut reachable = self.names.named_files();
        reachable.extend(self.durable_names.named_files());
        for name in &self.pending_names {
            if let NameOp::Set { node: Node::File(file), .. }
            | NameOp::Rename { node: Node::File(file), .. } = &name.op
            {
                reachable.insert(*file);
            }
        }
        reachable
    }

    /// Drops the files that are not open and cannot have a name, now or after any crash.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(FileId) -> bool) {
        let reachable = self.reachable_files();
        self.files.retain(|file, _| reachable.contains(file) || is_open(*file));
    }
}
