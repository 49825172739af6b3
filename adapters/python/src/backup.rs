//! Backups: functions of the Python module that take a folder of backups.

use std::path::Path;

use minikv::backup::{Backup, Backups};
use minikv::{Db, Options};
use pyo3::prelude::*;

use crate::call::blocking;
use crate::convert::report;
use crate::error::Fault;
use crate::options::path_of;

fn open(folder: &Path) -> Result<Backups, Fault> {
    Ok(Backups::open(folder, &Options::default())?)
}

/// Adds a backup of `db` to a folder, and then removes all backups there except the latest `keep`.
pub fn add(db: &Db, folder: &Path, keep: Option<usize>) -> Result<Backup, Fault> {
    let made = db.backup(folder)?;
    if let Some(keep) = keep {
        open(folder)?.keep(keep)?;
    }
    Ok(made)
}

/// Returns the backups in a folder, oldest first, as dictionaries. DB.backup makes them.
#[pyfunction]
pub fn backups<'py>(folder: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let path = path_of(folder)?;
    report(folder.py(), blocking(folder.py(), || Ok(open(&path)?.list()?))?)
}

/// Reads all backups in a folder, and returns a list of the faults: files that are damaged or
/// missing.
#[pyfunction]
pub fn verify_backups<'py>(folder: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let path = path_of(folder)?;
    report(folder.py(), blocking(folder.py(), || Ok(open(&path)?.verify(|_| ())?))?)
}

/// Copies a backup to the directory name, which must be empty or missing, and returns the backup.
/// Checks every file. Without number, restores the latest backup.
#[pyfunction]
#[pyo3(signature = (folder, name, *, number=None))]
pub fn restore<'py>(
    folder: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    number: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let (folder, path, py) = (path_of(folder)?, path_of(name)?, name.py());
    report(py, blocking(py, || Ok(open(&folder)?.restore(number, path, |_| ())?))?)
}
