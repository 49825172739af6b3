//! The current version, and how a change to it becomes durable.
//!
//! 1. The caller makes the tables that an edit adds, and their directory entries, durable.
//! 2. The edit is appended to the MANIFEST and synced ([`VersionSet::commit`]).
//! 3. The caller shows the new version to readers.
//! 4. Tables that the edit dropped may be removed.
//!
//! A MANIFEST that has grown too long, or whose write has failed, is replaced. The new MANIFEST
//! begins with the whole current version. It is durable, with its directory entry, before `CURRENT`
//! is replaced by a rename.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::version::Version;
use crate::engine::version::manifest::{ManifestWriter, Recovered, read_current, set_current};
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::obsolete::Trash;
use crate::format::edit::VersionEdit;
use crate::format::key::{InternalComparator, SeqNo};
use crate::format::name;
use crate::fs::{Fs, has_other_names, try_append, try_sync_dir};
use crate::log::LogWriter;

/// The current version and the MANIFEST. Guarded by the manifest lock, so edits are made one at a
/// time.
#[derive(Debug)]
pub(crate) struct VersionSet {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    order: InternalComparator,
    trash: Arc<Trash>,
    numbers: Arc<FileNumbers>,
    current: Arc<Version>,
    manifest: Option<ManifestWriter>,
    /// Earlier MANIFESTs whose write failed. `CURRENT` may name one of them until the next MANIFEST
    /// is in place.
    old_manifests: Vec<PathBuf>,
    /// Number of the first log whose records are not all in tables.
    log_number: u64,
    /// The highest sequence number in the tables.
    last_seq: SeqNo,
    /// The error of the failed commit, if any. No further edit is written until
    /// [`VersionSet::restart`].
    failed: Option<Error>,
    /// Whether the edit of the last commit may be in the MANIFEST that the next open reads.
    in_doubt: bool,
    /// Size in bytes above which a MANIFEST is replaced, if it is also more than twice its initial
    /// length.
    rotate_bytes: u64,
    /// Whether the filesystem could sync the directory when it was last asked to.
    syncs_names: bool,
}

impl VersionSet {
    /// Creates the set from a recovered version. The first edit begins a new MANIFEST, unless
    /// [`VersionSet::reuse_manifest`] continues the recovered one.
    ///
    /// # Errors
    /// Corruption of the recovered version.
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        order: InternalComparator,
        trash: Arc<Trash>,
        numbers: Arc<FileNumbers>,
        recovered: &Recovered,
        rotate_bytes: u64,
    ) -> Result<VersionSet> {
        let version = Version::default().apply(&recovered.edit, &order, &trash);
        let path = dir.join(name::manifest_name(recovered.manifest_number));
        Ok(VersionSet {
            fs,
            dir: dir.to_path_buf(),
            order,
            trash,
            numbers,
            current: Arc::new(version.map_err(|error| error.in_file(&path))?),
            manifest: None,
            old_manifests: Vec::new(),
            log_number: recovered.log_number,
            last_seq: recovered.last_seq,
            failed: None,
            in_doubt: false,
            rotate_bytes,
            syncs_names: true,
        })
    }

    /// Continues the recovered MANIFEST, which must end cleanly. Does nothing if the MANIFEST has a
    /// second name (a hard link), or if the filesystem cannot append to files.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn reuse_manifest(&mut self, recovered: &Recovered) -> Result<()> {
        let path = self.dir.join(name::manifest_name(recovered.manifest_number));
        if has_other_names(&*self.fs, &path)? {
            return Ok(());
        }
        // The next edit may declare all logs before a new log obsolete, so the new log's directory
        // entry must be durable.
        self.syncs_names = try_sync_dir(&*self.fs, &self.dir)?;
        let Some(file) = try_append(&*self.fs, &path)? else { return Ok(()) };
        let mut manifest = ManifestWriter {
            number: recovered.manifest_number,
            path,
            log: LogWriter::new(file, recovered.valid_end),
            version_bytes: recovered.valid_end,
        };
        // A killed process may have left its last edit unsynced. A loss of power must not take that
        // edit and keep the next one.
        manifest.sync()?;
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Returns whether the filesystem can sync directories, as far as it was asked to.
    pub(crate) fn syncs_names(&self) -> bool {
        self.syncs_names
    }

    /// Returns the current version.
    pub(crate) fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// Returns the number of the first log whose records are not all in tables.
    pub(crate) fn log_number(&self) -> u64 {
        self.log_number
    }

    /// Returns the highest sequence number in the tables.
    pub(crate) fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// Returns the number of the MANIFEST that edits are appended to; 0 if there is none.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// Makes `edit` durable, and the resulting version current. Returns that version.
    ///
    /// A flush sets the log number and the last sequence number of the edit; all other numbers are
    /// filled in here.
    ///
    /// # Errors
    /// I/O errors, after which the MANIFEST is never written again, because only the next open
    /// finds out whether the edit is durable. Corruption if the edit drops a table that is not in
    /// the current version.
    pub(crate) fn commit(&mut self, mut edit: VersionEdit) -> Result<Arc<Version>> {
        self.in_doubt = false;
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.check_dropped(&edit)?;
        let log_number = edit.log_number.unwrap_or(self.log_number);
        let last_seq = self.last_seq.max(edit.last_seq.unwrap_or(0));
        debug_assert!(log_number >= self.log_number, "the edit needs logs that may be removed");
        let next = self.numbers.next();
        debug_assert!(
            edit.new_files.iter().all(|file| file.number < next),
            "a number was not handed out"
        );
        edit.log_number = Some(log_number);
        edit.prev_log_number = Some(0);
        edit.next_file_number = Some(self.numbers.next());
        edit.last_seq = Some(last_seq);
        let version = Arc::new(self.current.apply(&edit, &self.order, &self.trash)?);
        self.assert_stays_sound(&version);
        let write = || match &self.manifest {
            Some(manifest) if !manifest.is_overgrown(self.rotate_bytes) => self.append(&edit),
            _ => self.rotate(&mut edit.clone()),
        };
        // A panic, like an error, leaves it unknown whether the edit is durable.
        let written = catch_unwind(AssertUnwindSafe(write))
            .unwrap_or_else(|payload| Err(Error::panicked("an edit of the MANIFEST", &*payload)));
        self.failed = written.as_ref().err().cloned();
        written?;
        self.log_number = log_number;
        self.last_seq = last_seq;
        let dropped: BTreeSet<_> = edit.deleted_files.iter().copied().collect();
        for (level, file) in self.current.files() {
            let moved = || edit.new_files.iter().any(|new| new.number == file.number);
            if dropped.contains(&(level, file.number)) && !moved() {
                file.set_obsolete();
            }
        }
        self.current = version.clone();
        Ok(version)
    }

    /// Checks the invariants of `next`, provided that the current version satisfies them.
    fn assert_stays_sound(&self, next: &Version) {
        if cfg!(debug_assertions) && self.current.check(&self.order).is_ok() {
            assert_eq!(next.check(&self.order), Ok(()), "after an edit");
        }
    }

    /// Checks that the tables dropped by an edit are in the current version. If two compactions had
    /// an input in common, the second compaction would bring back entries that the first one
    /// dropped.
    fn check_dropped(&self, edit: &VersionEdit) -> Result<()> {
        let mut missing: BTreeSet<_> = edit.deleted_files.iter().copied().collect();
        for (level, file) in self.current.files() {
            missing.remove(&(level, file.number));
        }
        match missing.first() {
            None => Ok(()),
            Some((level, number)) => Err(Error::corruption(format!(
                "an edit drops the table {number:06} of level {level}, which does not exist"
            ))),
        }
    }

    /// After a failure, makes the next edit begin a new MANIFEST, without the edit that failed.
    pub(crate) fn restart(&mut self) {
        if self.failed.take().is_some() {
            self.old_manifests.extend(self.manifest.take().map(|manifest| manifest.path));
        }
    }

    /// Returns whether the next open may find the edit of the last commit, which failed. If so, the
    /// tables of that edit must be kept.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Appends the edit to the MANIFEST and syncs it.
    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.in_doubt = true;
        let manifest = self.manifest.as_mut().expect("append follows a check for a MANIFEST");
        manifest.add(edit)?;
        manifest.sync()
    }

    /// Writes the current version and `edit` into a new MANIFEST and names it in `CURRENT`.
    fn rotate(&mut self, edit: &mut VersionEdit) -> Result<()> {
        // If a panic ends the attempt, `CURRENT` may name the new MANIFEST.
        self.in_doubt = true;
        let number = self.numbers.take();
        debug_assert!(number > self.manifest_number(), "MANIFESTs ascend");
        edit.next_file_number = Some(self.numbers.next());
        let path = self.dir.join(name::manifest_name(number));
        let begun = self.begin_manifest(number, &path, edit);
        begun.inspect_err(|_| self.discard(number, path))
    }

    /// Writes the current version and `edit` into the new MANIFEST at `path`, names it in `CURRENT`
    /// and removes the earlier MANIFESTs.
    fn begin_manifest(&mut self, number: u64, path: &Path, edit: &VersionEdit) -> Result<()> {
        let path = path.to_path_buf();
        let file = self.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut manifest =
            ManifestWriter { number, path, log: LogWriter::new(file, 0), version_bytes: 0 };
        let mut whole = self.current.to_edit();
        whole.comparator = Some(self.order.user().get().name().to_owned());
        manifest.add(&whole)?;
        manifest.add(edit)?;
        manifest.sync()?;
        manifest.version_bytes = manifest.log.len();
        self.syncs_names = try_sync_dir(&*self.fs, &self.dir)?;
        set_current(&*self.fs, &self.dir, number)?;
        if let Some(old) = self.manifest.replace(manifest) {
            self.old_manifests.push(old.path);
        }
        for old in std::mem::take(&mut self.old_manifests) {
            // If the removal fails, the next open removes the file.
            let _ = self.fs.remove(&old);
        }
        Ok(())
    }

    /// Removes an incomplete new MANIFEST after a failure, so that repeated attempts do not fill
    /// the disk. If `CURRENT` names that MANIFEST or cannot be read, the file stays until another
    /// MANIFEST is in place.
    fn discard(&mut self, number: u64, path: PathBuf) {
        let is_named = !matches!(read_current(&*self.fs, &self.dir), Ok(named)
            if named != name::manifest_name(number));
        let _ = self.fs.remove(&self.dir.join(name::temp_name(number)));
        self.in_doubt = is_named;
        if is_named || self.fs.remove(&path).is_err() {
            self.old_manifests.push(path);
        }
    }
}
