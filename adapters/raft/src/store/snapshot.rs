//! Snapshots. A snapshot is a directory that contains a checkpoint of the database and the file
//! `SNAPSHOT`. The tables of the checkpoint are hard links to the tables of the live database.
//! `SNAPSHOT` is written last and describes the contents of the snapshot.
//!
//! A snapshot is made while writes continue. It is made in a directory that does not count as a
//! snapshot, and this directory is renamed when the snapshot is complete and durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minikv::files::FileName;
use minikv::fs::Fs;
use openraft::{LogId, Node, SnapshotMeta, StoredMembership};
use serde::{Deserialize, Serialize};

use crate::store::error::{Error, Result};
use crate::store::files;
use crate::store::home::Home;

pub(crate) const HEAD: &str = "SNAPSHOT";
pub(crate) const DB: &str = "db";
pub(crate) const BUILDING: &str = "building.new";
const FORMAT: u32 = 1;
const HEAD_LIMIT_BYTES: u64 = 256 << 20;

/// A file of the database in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// The name of a file in a minikv database.
    pub name: String,
    /// The length of the file, in bytes.
    pub bytes: u64,
}

impl SnapshotFile {
    /// Returns whether a file of a snapshot may have this name. A malicious name could be a path
    /// that leads outside the snapshot.
    pub(crate) fn has_good_name(&self) -> bool {
        matches!(
            FileName::parse(&self.name),
            Some(
                FileName::Current
                    | FileName::Manifest(_)
                    | FileName::Log(_)
                    | FileName::Table { .. }
            )
        )
    }
}

/// The contents of the file `SNAPSHOT`.
#[derive(Serialize, Deserialize)]
#[serde(bound = "N: Node")]
pub(crate) struct Head<N: Node> {
    pub(crate) format: u32,
    pub(crate) meta: SnapshotMeta<u64, N>,
    pub(crate) files: Vec<SnapshotFile>,
}

/// The fields of [`Head`] that do not depend on the type of nodes.
#[derive(Deserialize)]
struct AnyHead {
    format: u32,
    meta: AnyMeta,
    files: Vec<SnapshotFile>,
}

#[derive(Deserialize)]
struct AnyMeta {
    last_log_id: Option<LogId<u64>>,
}

/// A complete snapshot on disk, used as openraft's `SnapshotData`. Clones share the directory.
/// After a newer snapshot has replaced this one, dropping the last clone removes the directory, so
/// a running transfer can still finish.
#[derive(Clone, Debug)]
pub struct SnapshotDir(Option<Arc<Dir>>);

#[derive(Debug)]
struct Dir {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    obsolete: AtomicBool,
}

impl Drop for Dir {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            // If the removal fails, the next open removes the remaining files.
            let _ = files::remove_tree(&*self.fs, &self.path);
        }
    }
}

impl SnapshotDir {
    pub(crate) fn new(fs: &Arc<dyn Fs>, path: PathBuf) -> SnapshotDir {
        let obsolete = AtomicBool::new(false);
        SnapshotDir(Some(Arc::new(Dir { fs: fs.clone(), path, obsolete })))
    }

    /// Returns a handle for a snapshot of which no data has been received yet.
    pub(crate) fn none() -> SnapshotDir {
        SnapshotDir(None)
    }

    /// Returns whether nobody has another clone of this snapshot.
    pub(crate) fn is_only_clone(&self) -> bool {
        self.0.as_ref().is_none_or(|dir| Arc::strong_count(dir) == 1)
    }

    /// Returns the id of the snapshot, which is the name of its directory.
    pub(crate) fn id(&self) -> Result<&str> {
        let name = self.dir()?.path.file_name().and_then(|name| name.to_str());
        name.ok_or_else(|| Error::Refused("a snapshot without a name".into()))
    }

    fn dir(&self) -> Result<&Dir> {
        self.0.as_deref().ok_or_else(|| Error::Refused("a snapshot without files".into()))
    }

    /// Returns the directory of the snapshot.
    ///
    /// # Errors
    /// [`Error::Refused`] if no data of the snapshot has been received yet.
    pub fn path(&self) -> Result<&Path> {
        Ok(&self.dir()?.path)
    }

    /// Returns the files of the database, in the order in which they are sent.
    ///
    /// # Errors
    /// Errors that occur while `SNAPSHOT` is read.
    pub fn files(&self) -> Result<Vec<SnapshotFile>> {
        Ok(self.any_head()?.files)
    }

    /// Reads from `offset` in the file `name` of the database, until `buf` is full or the file
    /// ends. Returns the number of bytes read.
    ///
    /// # Errors
    /// I/O errors.
    pub fn read_at(&self, name: &str, buf: &mut [u8], offset: u64) -> Result<usize> {
        let dir = self.dir()?;
        let path = dir.path.join(DB).join(name);
        let file = dir.fs.open(&path).map_err(Error::file("open", &path))?;
        file.read_at(buf, offset).map_err(Error::file("read", &path))
    }

    pub(crate) fn head<N: Node>(&self) -> Result<Head<N>> {
        let (place, content) = self.read_head()?;
        serde_json::from_slice(&content).map_err(|e| Error::format(place, e.to_string()))
    }

    fn any_head(&self) -> Result<AnyHead> {
        let (place, content) = self.read_head()?;
        let head: AnyHead =
            serde_json::from_slice(&content).map_err(|e| Error::format(&*place, e.to_string()))?;
        if head.format != FORMAT {
            let what = format!("the format is {}, but this build knows {FORMAT}", head.format);
            return Err(Error::format(place, what));
        }
        match head.files.iter().find(|file| !file.has_good_name()) {
            Some(file) => Err(Error::format(place, format!("names the file `{}`", file.name))),
            None => Ok(head),
        }
    }

    fn read_head(&self) -> Result<(String, Vec<u8>)> {
        let dir = self.dir()?;
        let path = dir.path.join(HEAD);
        let (content, _) = files::read_summed(&*dir.fs, &path, HEAD_LIMIT_BYTES)?;
        Ok((path.display().to_string(), content))
    }

    pub(crate) fn make_obsolete(&self) {
        if let Some(dir) = &self.0 {
            dir.obsolete.store(true, Ordering::Release);
        }
    }

    /// Returns whether the snapshot has all of its files. A crash may have interrupted the creation
    /// or removal of the files.
    ///
    /// # Errors
    /// [`Error::Format`] if the length of a file differs from the length recorded in `SNAPSHOT`.
    fn is_whole(&self) -> Result<bool> {
        let dir = self.dir()?;
        let exists = |path: &Path| dir.fs.exists(path).map_err(Error::file("query", path));
        if !exists(&dir.path.join(HEAD))? {
            return Ok(false);
        }
        for SnapshotFile { name, bytes } in self.files()? {
            let path = dir.path.join(DB).join(&name);
            if !exists(&path)? {
                return Ok(false);
            }
            let found = dir.fs.len(&path).map_err(Error::file("query", &path))?;
            if found != bytes {
                let what = format!("{found} bytes, but `{HEAD}` says {bytes}");
                return Err(Error::format(path.display().to_string(), what));
            }
        }
        Ok(true)
    }
}

/// Returns the id of the last entry in a snapshot.
pub(crate) fn read_last_log_id(snapshot: &SnapshotDir) -> Result<Option<LogId<u64>>> {
    Ok(snapshot.any_head()?.meta.last_log_id)
}

/// Returns whether `id` can be the id of a snapshot, and thus the name of its directory.
pub(crate) fn is_good_id(id: &str) -> bool {
    (1..=120).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

pub(crate) fn write_head<N: Node>(fs: &dyn Fs, dir: &Path, head: &Head<N>) -> Result<()> {
    let content = serde_json::to_vec(head).map_err(|e| Error::format(HEAD, e.to_string()))?;
    files::write(fs, &dir.join(HEAD), &files::with_sum(content))?;
    files::sync_dir(fs, dir)
}

pub(crate) fn new_head<N: Node>(meta: SnapshotMeta<u64, N>, files: Vec<SnapshotFile>) -> Head<N> {
    Head { format: FORMAT, meta, files }
}

/// Removes all snapshots except the newest complete one, and returns the newest one. Returns an
/// error if a snapshot is damaged, because the damaged snapshot may be newer than the state.
pub(crate) fn clean(home: &Home) -> Result<Option<SnapshotDir>> {
    let dir = home.snapshots();
    files::create_dir(&*home.fs, &dir)?;
    let mut newest: Option<(Option<LogId<u64>>, SnapshotDir)> = None;
    for name in files::list(&*home.fs, &dir)? {
        let snapshot = SnapshotDir::new(&home.fs, dir.join(&name));
        if name == BUILDING || !snapshot.is_whole()? {
            files::remove_tree(&*home.fs, &dir.join(&name))?;
            continue;
        }
        let last = read_last_log_id(&snapshot)?;
        match &newest {
            Some((newer, _)) if *newer >= last => snapshot.make_obsolete(),
            _ => {
                if let Some((_, older)) = newest.replace((last, snapshot)) {
                    older.make_obsolete();
                }
            }
        }
    }
    Ok(newest.map(|(_, snapshot)| snapshot))
}

pub(crate) fn decode_membership<N: Node>(bytes: Option<&[u8]>) -> Result<StoredMembership<u64, N>> {
    match bytes {
        None => Ok(StoredMembership::default()),
        Some(bytes) => serde_json::from_slice(bytes)
            .map_err(|e| Error::format("the membership of the state", e.to_string())),
    }
}
