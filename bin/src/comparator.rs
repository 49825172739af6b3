//! The comparators that this build knows, and the comparator of a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::files::{FileName, LogReader, VersionEdit, list_files, read_current};
use minikv::fs::{DiskFs, Fs};
use minikv::{BytewiseComparator, Comparator, IndexedDbComparator};

/// The names of the comparators that this build knows, for messages.
pub const KNOWN: &str = "leveldb.BytewiseComparator and idb_cmp1";

/// Returns the comparator with this name, if this build knows it.
pub fn named(name: &str) -> Option<Arc<dyn Comparator>> {
    let known: [Arc<dyn Comparator>; 2] =
        [Arc::new(BytewiseComparator), Arc::new(IndexedDbComparator)];
    known.into_iter().find(|comparator| comparator.name() == name)
}

/// Reads the name of the comparator of the database in `dir` from the first edit of its MANIFEST.
/// If CURRENT is missing, reads the newest MANIFEST. Returns `None` if the first edit is damaged:
/// opening the database then reports the damage.
pub fn name_in(dir: &Path) -> Option<String> {
    let manifest = current(dir).or_else(|| newest_manifest(dir))?;
    let log = LogReader::new(DiskFs.open(&manifest).ok()?, &manifest).ok()?;
    let mut log = log.beside_writer(true);
    VersionEdit::decode(log.next().ok()??).ok()?.comparator
}

fn current(dir: &Path) -> Option<PathBuf> {
    let manifest = dir.join(read_current(&DiskFs, dir).ok()?);
    DiskFs.exists(&manifest).ok()?.then_some(manifest)
}

fn newest_manifest(dir: &Path) -> Option<PathBuf> {
    let files = list_files(&DiskFs, dir).ok()?;
    let manifests = files.into_iter().filter(|(_, name)| matches!(name, FileName::Manifest(_)));
    Some(dir.join(manifests.max_by_key(|(_, name)| name.number())?.0))
}
