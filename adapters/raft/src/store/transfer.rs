//! Receives the files of a snapshot in chunks, in the order of the list of files. While the
//! receiver runs, an interrupted transfer can continue at the same position. When the receiver
//! restarts, it removes the received files. An incomplete transfer changes nothing outside the
//! directory `incoming/`.

use openraft::{Node, SnapshotMeta};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::incoming::{Incoming, Position};
use crate::store::snapshot::{self, DB, SnapshotDir, SnapshotFile};
use crate::store::{damage, files};

/// Maximum number of files in a transfer. A database of several terabytes has fewer files.
const MAX_FILES: usize = 1 << 20;

impl Store {
    /// Begins or continues the transfer of the snapshot `id`, and returns the position of the next
    /// chunk. A transfer of another snapshot is abandoned.
    ///
    /// # Errors
    /// [`Error::Refused`] if the id or the name of a file is invalid; I/O errors.
    pub fn offer_snapshot(&self, id: &str, files: Vec<SnapshotFile>) -> Result<Position> {
        let mut incoming = self.lock_incoming();
        if let Some(known) = &*incoming
            && known.id == id
            && known.files == files
        {
            return Ok(known.at);
        }
        if self.waiting(id).is_some() {
            return Ok(Position { file: files.len(), offset: 0 });
        }
        if !snapshot::is_good_id(id) || files.len() > MAX_FILES {
            return Err(Error::Refused(format!("the snapshot `{id}` has a strange id or size")));
        }
        if let Some(file) = files.iter().find(|file| !file.has_good_name()) {
            return Err(Error::Refused(format!("a snapshot has no file `{}`", file.name)));
        }
        self.check_home()?;
        *incoming = None;
        let fs = &*self.home.fs;
        for name in files::list(fs, &self.home.incoming())? {
            if self.waiting(&name).is_none() {
                files::remove_tree(fs, &self.home.incoming().join(name))?;
            }
        }
        files::create_dir(fs, &self.home.incoming())?;
        files::create_dir(fs, &self.home.incoming().join(id))?;
        files::create_dir(fs, &self.home.incoming().join(id).join(DB))?;
        let at = Position { file: 0, offset: 0 };
        let started = incoming.insert(Incoming { id: id.into(), files, at, open: None });
        self.finish_files(started)?;
        Ok(started.at)
    }

    /// Adds a chunk at the position `at`, and returns the position of the next chunk. If the
    /// transfer has reached a different position, ignores the chunk; the sender continues from the
    /// returned position.
    ///
    /// # Errors
    /// [`Error::Refused`] if no transfer of this snapshot is in progress, or the chunk does not fit
    /// into the file; I/O errors, after which the transfer starts again from the beginning.
    pub fn add_chunk(&self, id: &str, at: Position, chunk: &[u8]) -> Result<Position> {
        let mut guard = self.lock_incoming();
        let Some(incoming) = guard.as_mut().filter(|incoming| incoming.id == id) else {
            return Err(Error::Refused(format!("no transfer of the snapshot `{id}` is under way")));
        };
        if incoming.at != at {
            return Ok(incoming.at);
        }
        let fits = |file: &SnapshotFile| {
            at.offset.checked_add(chunk.len() as u64).is_some_and(|end| end <= file.bytes)
        };
        if !incoming.files.get(at.file).is_some_and(fits) {
            let length = chunk.len();
            return Err(Error::Refused(format!(
                "a chunk of {length} bytes does not fit at {at:?}"
            )));
        }
        let written = self.write_chunk(incoming, chunk);
        if written.is_err() {
            *guard = None;
        }
        written
    }

    fn write_chunk(&self, incoming: &mut Incoming, chunk: &[u8]) -> Result<Position> {
        let name = &incoming.files[incoming.at.file].name;
        let path = self.home.incoming().join(&incoming.id).join(DB).join(name);
        if incoming.open.is_none() {
            let file = self.home.fs.create(&path).map_err(Error::file("create", &path))?;
            incoming.open = Some(file);
        }
        if let Some(file) = &mut incoming.open {
            file.write(chunk).map_err(Error::file("write", &path))?;
        }
        incoming.at.offset += chunk.len() as u64;
        self.finish_files(incoming)?;
        Ok(incoming.at)
    }

    /// If the current file is complete, makes it durable and moves on to the next file that is not
    /// empty.
    fn finish_files(&self, incoming: &mut Incoming) -> Result<()> {
        while let Some(file) = incoming.files.get(incoming.at.file) {
            if incoming.at.offset < file.bytes {
                return Ok(());
            }
            let path = self.home.incoming().join(&incoming.id).join(DB).join(&file.name);
            match incoming.open.take() {
                Some(mut open) => open.sync().map_err(Error::file("sync", &path))?,
                None => files::write(&*self.home.fs, &path, b"")?,
            }
            incoming.at = Position { file: incoming.at.file + 1, offset: 0 };
        }
        Ok(())
    }

    /// Ends a transfer after all files have been received, and makes the snapshot durable.
    ///
    /// # Errors
    /// [`Error::Refused`] if the transfer is not complete or is not the announced snapshot;
    /// [`Error::Damaged`] if the received database is damaged; I/O errors.
    pub fn finish_transfer<N: Node>(&self, meta: &SnapshotMeta<u64, N>) -> Result<SnapshotDir> {
        let mut guard = self.lock_incoming();
        let id = &meta.snapshot_id;
        match guard.take() {
            Some(done) if done.id == *id && done.at.file == done.files.len() => {
                let fs = &*self.home.fs;
                let dir = self.home.incoming().join(id);
                let last = damage::last_applied(&dir.join(DB), &self.home.options)?;
                if last != meta.last_log_id {
                    let expected = &meta.last_log_id;
                    let what = format!("the snapshot `{id}` ends at {last:?}, not {expected:?}");
                    return Err(Error::Refused(what));
                }
                files::sync_dir(fs, &dir.join(DB))?;
                snapshot::write_head(fs, &dir, &snapshot::new_head(meta.clone(), done.files))?;
                files::sync_dir(fs, &self.home.incoming())?;
                let received = SnapshotDir::new(&self.home.fs, dir);
                self.received().push(received.clone());
                Ok(received)
            }
            other => {
                *guard = other;
                if let Some(waiting) = self.waiting(id) {
                    return Ok(waiting);
                }
                Err(Error::Refused(format!("the transfer of the snapshot `{id}` is not complete")))
            }
        }
    }

    /// Returns the complete snapshot `id`, if openraft has it and has not installed it yet.
    fn waiting(&self, id: &str) -> Option<SnapshotDir> {
        let mut received = self.received();
        received.retain(|received| !received.is_only_clone());
        received.iter().find(|received| received.id().is_ok_and(|known| known == id)).cloned()
    }

    fn lock_incoming(&self) -> std::sync::MutexGuard<'_, Option<Incoming>> {
        self.incoming.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
