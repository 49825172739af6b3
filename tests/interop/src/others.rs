//! Helpers for tests with other engines: runs goleveldb as a program, and copies the files of
//! simulated disks to real disks, where other engines can read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use minikv::fs::Fs;
use minikv::fs::sim::SimFs;

use crate::ffi::Entry;

/// Builds the program of `go/goleveldb.go`. If the build fails, prints the packages that it needs
/// and returns `None`.
pub fn goleveldb(dir: &Path) -> Option<PathBuf> {
    let program = dir.join("goleveldb");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/go/goleveldb.go"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOCACHE", dir.join("cache"))
        .status();
    match built {
        Ok(status) if status.success() => Some(program),
        _ => {
            println!("skipped: goleveldb (golang-go, golang-github-syndtr-goleveldb-dev)");
            None
        }
    }
}

/// Returns the entries that goleveldb finds in `dir`, or the reason why goleveldb refuses to open
/// `dir`.
pub fn dump(goleveldb: &Path, dir: &Path, mode: &str) -> Result<Vec<Entry>, String> {
    let dump = Command::new(goleveldb).arg("dump").arg(dir).arg(mode).output();
    let dump = String::from_utf8(dump.unwrap().stdout).unwrap();
    if dump.starts_with("refused") {
        return Err(dump);
    }
    let unhex = |hex: &str| -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    let entry = |line: &str| line.split_once(' ').map(|(k, v)| (unhex(k), unhex(v)));
    Ok(dump.lines().map(|line| entry(line).unwrap()).collect())
}

/// Copies the files of a simulated disk to a directory on a real disk.
pub fn export(fs: &SimFs, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in fs.list(Path::new("/db")).unwrap() {
        let file = fs.open(&Path::new("/db").join(&name)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        fs::write(to.join(name), bytes).unwrap();
    }
}
