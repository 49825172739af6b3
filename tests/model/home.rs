//! The filesystem and directory of the database under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minikv::Options;
use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::fs::{DiskFs, Fs, MemFs};
use minikv_support::system::fast_folder;

/// A directory on some filesystem, removed when dropped.
pub struct Home {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// The simulated filesystem; `None` on a filesystem that cannot crash.
    sim: Option<SimFs>,
    _disk: Option<tempfile::TempDir>,
}

impl Home {
    pub fn on_disk() -> Home {
        Home::in_folder(&std::env::temp_dir())
    }

    /// Returns a directory of the system's files in which a sync does not wait.
    pub fn in_fast_files() -> Home {
        Home::in_folder(&fast_folder())
    }

    fn in_folder(folder: &Path) -> Home {
        let disk = tempfile::tempdir_in(folder).expect("a temporary directory");
        Home { fs: Arc::new(DiskFs), dir: disk.path().join("db"), sim: None, _disk: Some(disk) }
    }

    pub fn in_memory() -> Home {
        Home { fs: Arc::new(MemFs::new()), dir: PathBuf::from("/db"), sim: None, _disk: None }
    }

    pub fn simulated(fs: SimFs) -> Home {
        let dir = PathBuf::from("/db");
        Home { fs: Arc::new(fs.clone()), dir, sim: Some(fs), _disk: None }
    }

    /// Returns the home after a crash at this moment, if the filesystem can crash.
    pub fn after_crash(&self, plan: &CrashPlan) -> Option<Home> {
        self.sim.as_ref().map(|fs| Home::simulated(fs.crash_image(plan)))
    }

    pub fn can_crash(&self) -> bool {
        self.sim.is_some()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn remove(&self, path: &Path) {
        self.fs.remove(path).unwrap();
    }

    /// Removes the files in `dir`.
    pub fn remove_files(&self, dir: &Path) {
        for name in self.fs.list(dir).unwrap() {
            self.remove(&dir.join(name));
        }
    }

    /// Returns default options for this filesystem.
    pub fn options(&self) -> Options {
        Options::default().fs(self.fs.clone())
    }
}
