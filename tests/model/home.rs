//! Where the database under test lives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::Options;
use minikv::fs::{DiskFs, Fs, MemFs};

/// A directory on some filesystem, gone when dropped.
pub struct Home {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    _disk: Option<tempfile::TempDir>,
}

impl Home {
    pub fn on_disk() -> Home {
        let disk = tempfile::tempdir().expect("a temporary directory");
        Home { fs: Arc::new(DiskFs), dir: disk.path().join("db"), _disk: Some(disk) }
    }

    pub fn in_memory() -> Home {
        Home { fs: Arc::new(MemFs::new()), dir: PathBuf::from("/db"), _disk: None }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Default options on this filesystem.
    pub fn options(&self) -> Options {
        Options::default().fs(self.fs.clone())
    }
}
