//! A filesystem with simulated crashes: a crash replaces all files with the files that it leaves
//! behind. Files opened before the crash can still be read unchanged.

use std::io;
use std::path::Path;
use std::sync::{Arc, RwLock};

use minikv::fs::sim::{CrashPlan, SimFs};
use minikv::fs::{FileLock, Fs, LockHolder, ReadFile, WriteFile};

#[derive(Clone, Debug)]
pub struct SwitchedFs(Arc<RwLock<(SimFs, u64)>>);

impl SwitchedFs {
    pub fn new(seed: u64) -> SwitchedFs {
        SwitchedFs(Arc::new(RwLock::new((SimFs::new(seed), 0))))
    }

    pub fn now(&self) -> SimFs {
        self.0.read().unwrap().0.clone()
    }

    pub fn crash(&self, plan: &CrashPlan) {
        let mut now = self.0.write().unwrap();
        *now = (now.0.crash_image(plan), now.1 + 1);
    }
}

#[derive(Debug)]
struct SwitchedFile {
    file: Arc<dyn ReadFile>,
    crashes: u64,
}

impl ReadFile for SwitchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<Option<(u64, u64)>> {
        Ok(self.file.identity()?.map(|(_, number)| (self.crashes, number)))
    }
}

impl Fs for SwitchedFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let now = self.0.read().unwrap().clone();
        Ok(Arc::new(SwitchedFile { file: now.0.open(path)?, crashes: now.1 }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.now().create(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.now().append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.now().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.now().remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.now().hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.now().create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.now().remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.now().list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.now().sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.now().exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.now().len(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        self.now().lock(path)
    }
}
