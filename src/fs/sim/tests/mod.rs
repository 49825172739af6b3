//! Tests of every kind of crash and every fault.

mod crashes;
mod durability;
mod faults;
mod past;
mod rules;

use std::path::{Path, PathBuf};

use super::*;
use crate::fs::{Fs, WriteFile};

fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

fn create(fs: &SimFs, name: &str) -> Box<dyn WriteFile> {
    fs.create(&path(name)).unwrap()
}

/// Writes a file without syncing anything.
fn write(fs: &SimFs, name: &str, bytes: &[u8]) {
    create(fs, name).write(bytes).unwrap();
}

/// Writes a file and makes its bytes and name durable.
fn write_synced(fs: &SimFs, name: &str, bytes: &[u8]) {
    let mut file = create(fs, name);
    file.write(bytes).unwrap();
    file.sync().unwrap();
    sync_dir(fs, "");
}

fn append(fs: &SimFs, name: &str, bytes: &[u8]) {
    fs.append(&path(name)).unwrap().write(bytes).unwrap();
}

fn sync(fs: &SimFs, name: &str) {
    fs.append(&path(name)).unwrap().sync().unwrap();
}

fn sync_dir(fs: &SimFs, name: &str) {
    fs.sync_dir(&path(name)).unwrap();
}

fn rename(fs: &SimFs, from: &str, to: &str) {
    fs.rename(&path(from), &path(to)).unwrap();
}

/// Returns the contents of a file, or `None` if it does not exist.
fn content(fs: &SimFs, name: &str) -> Option<Vec<u8>> {
    if !fs.exists(&path(name)).unwrap() {
        return None;
    }
    let file = fs.open(&path(name)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    Some(bytes)
}

fn names(fs: &SimFs) -> Vec<String> {
    let mut names = fs.list(Path::new("/")).unwrap();
    names.sort();
    names
}

fn strict(fs: &SimFs) -> SimFs {
    fs.crash_image(&CrashPlan::strict())
}

fn everything(fs: &SimFs) -> SimFs {
    fs.crash_image(&CrashPlan::everything())
}
