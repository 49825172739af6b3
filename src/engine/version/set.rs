//! The MANIFEST: which version is current, and how that is made durable.
//!
//! A MANIFEST is a log of version edits. `CURRENT` names the one that counts. Order of a change:
//! the tables it names are durable, then the edit is appended and synced, then the new version is
//! shown to readers, then what it dropped may be removed. A new MANIFEST starts with the whole
//! version, and is durable under its name before `CURRENT` is replaced by a rename.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::version::Version;
use crate::engine::version::manifest::{Manifest, Recovered, read_current, set_current};
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::obsolete::Trash;
use crate::format::edit::VersionEdit;
use crate::format::key::{InternalComparator, SeqNo};
use crate::format::name::{self};
use crate::fs::{Fs, has_other_names, sync_dir};
use crate::log::LogWriter;

/// Writes the MANIFEST. Guarded by the manifest lock: one edit at a time.
#[derive(Debug)]
pub struct VersionSet {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    order: InternalComparator,
    trash: Arc<Trash>,
    numbers: Arc<FileNumbers>,
    current: Arc<Version>,
    manifest: Option<Manifest>,
    /// MANIFESTs before this one, mostly such as failed: `CURRENT` may name one of them until the
    /// next one is in place.
    old_manifests: Vec<PathBuf>,
    /// Logs before this one are in tables.
    log_number: u64,
    /// The highest sequence number in the tables.
    last_seq: SeqNo,
    /// Why the MANIFEST is never written again.
    failed: Option<Error>,
    /// Whether the edit that failed may be found by the next open all the same.
    in_doubt: bool,
    /// A MANIFEST longer than this, and than twice what its version takes, is started anew.
    rotate_bytes: u64,
}

impl VersionSet {
    /// Starts from a recovered version; the first edit makes a new MANIFEST.
    pub fn new(
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
        })
    }

    /// Goes on writing the recovered MANIFEST, which must end cleanly.
    pub fn reuse_manifest(&mut self, recovered: &Recovered) -> Result<()> {
        let path = self.dir.join(name::manifest_name(recovered.manifest_number));
        if has_other_names(&*self.fs, &path)? {
            return Ok(());
        }
        // The next edit may say that a new log's number is the first that counts.
        sync_dir(&*self.fs, &self.dir)?;
        let file = self.fs.append(&path).map_err(|error| Error::io("open", &path, error))?;
        self.manifest = Some(Manifest {
            number: recovered.manifest_number,
            path,
            log: LogWriter::new(file, recovered.valid_end),
            version_bytes: recovered.valid_end,
        });
        Ok(())
    }

    /// The current version.
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// Logs before this one are in tables.
    pub fn log_number(&self) -> u64 {
        self.log_number
    }

    /// The highest sequence number in the tables.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// The MANIFEST's number; 0 before the first edit.
    pub fn manifest_number(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// Makes `edit` durable, and the version it makes the current one.
    ///
    /// The edit's log number and last sequence, where given, are those of what it flushes; the
    /// rest is filled in here.
    ///
    /// # Errors
    /// I/O errors. After one the MANIFEST is suspect and never written again: whether the edit
    /// is durable is known only at the next open.
    pub fn commit(&mut self, mut edit: VersionEdit) -> Result<Arc<Version>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.check_dropped(&edit)?;
        let log_number = edit.log_number.unwrap_or(self.log_number);
        let last_seq = self.last_seq.max(edit.last_seq.unwrap_or(0));
        edit.log_number = Some(log_number);
        edit.prev_log_number = Some(0);
        edit.next_file_number = Some(self.numbers.next());
        edit.last_seq = Some(last_seq);
        let version = Arc::new(self.current.apply(&edit, &self.order, &self.trash)?);
        let write = || match &self.manifest {
            Some(manifest) if !manifest.is_overgrown(self.rotate_bytes) => self.append(&edit),
            _ => self.rotate(&mut edit.clone()),
        };
        // A panic is one more way not to know whether the edit is durable.
        let written = catch_unwind(AssertUnwindSafe(write))
            .unwrap_or_else(|payload| Err(Error::panicked("an edit of the MANIFEST", &*payload)));
        self.failed = written.as_ref().err().cloned();
        written?;
        self.log_number = log_number;
        self.last_seq = last_seq;
        for &(level, number) in &edit.deleted_files {
            let moved = edit.new_files.iter().any(|new| new.number == number);
            let old = self.current.level(level).iter().find(|file| file.number == number);
            if let (false, Some(file)) = (moved, old) {
                file.set_obsolete();
            }
        }
        self.current = version.clone();
        Ok(version)
    }

    /// Checks that what an edit drops is there. If two compactions had one input, the second would
    /// bring back what the first dropped.
    fn check_dropped(&self, edit: &VersionEdit) -> Result<()> {
        let is_there = |&(level, number): &(usize, u64)| {
            self.current.level(level).iter().any(|file| file.number == number)
        };
        match edit.deleted_files.iter().find(|dropped| !is_there(dropped)) {
            None => Ok(()),
            Some((level, number)) => Err(Error::corruption(format!(
                "an edit drops the table {number:06} of level {level}, which is not there"
            ))),
        }
    }

    /// After a failure: the next edit starts a new MANIFEST, without the edit that failed.
    pub fn restart(&mut self) {
        if self.failed.take().is_some() {
            self.old_manifests.extend(self.manifest.take().map(|manifest| manifest.path));
        }
    }

    /// After a failed commit: whether the next open may find its edit, and need what that names.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.in_doubt = true;
        let manifest = self.manifest.as_mut().expect("append follows a check for a MANIFEST");
        manifest.add(edit)?;
        manifest.sync()
    }

    /// Writes the current version and `edit` into a new MANIFEST and names it in `CURRENT`.
    fn rotate(&mut self, edit: &mut VersionEdit) -> Result<()> {
        let number = self.numbers.take();
        edit.next_file_number = Some(self.numbers.next());
        let path = self.dir.join(name::manifest_name(number));
        let begun = self.begin_manifest(number, &path, edit);
        begun.inspect_err(|_| self.discard(number, path))
    }

    /// Writes the current version and `edit` into the new MANIFEST at `path`, and puts it in place
    /// of those before.
    fn begin_manifest(&mut self, number: u64, path: &Path, edit: &VersionEdit) -> Result<()> {
        let path = path.to_path_buf();
        let file = self.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut manifest =
            Manifest { number, path, log: LogWriter::new(file, 0), version_bytes: 0 };
        let mut whole = self.current.to_edit();
        whole.comparator = Some(self.order.user().get().name().to_owned());
        manifest.add(&whole)?;
        manifest.add(edit)?;
        manifest.sync()?;
        manifest.version_bytes = manifest.log.len();
        sync_dir(&*self.fs, &self.dir)?;
        set_current(&*self.fs, &self.dir, number)?;
        if let Some(old) = self.manifest.replace(manifest) {
            self.old_manifests.push(old.path);
        }
        for old in std::mem::take(&mut self.old_manifests) {
            // Left behind, it is removed by the next open.
            let _ = self.fs.remove(&old);
        }
        Ok(())
    }

    /// Removes what is left of a new MANIFEST that failed, so that tries on a full disk do not add
    /// up. If `CURRENT` names it or cannot be read, it stays until another one is in place.
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
