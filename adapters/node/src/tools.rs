//! Functions that take the path of a database or of a folder of backups, instead of an open
//! database.

use std::path::Path;

use minikv::backup::Backups;
use minikv::{Options, RepairOptions};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::error::Fault;
use crate::job::{Job, Reply, start};

/// Removes the database at `path`.
#[napi(catch_unwind)]
pub fn destroy(path: String) -> AsyncTask<Job> {
    start(move || {
        minikv::destroy(path, &Options::default())?;
        Ok(Reply::Nothing)
    })
}

/// Repairs the database at `path`, and returns a promise of a report, as JSON. If `dry_run` is
/// true, only makes the report and changes nothing.
#[napi(catch_unwind)]
pub fn repair(path: String, dry_run: bool) -> AsyncTask<Job> {
    start(move || {
        let how = RepairOptions::default().dry_run(dry_run);
        let report = minikv::repair(path, &Options::default(), how);
        Reply::report(report.map_err(|error| Fault::of_tool(error, "repair"))?)
    })
}

/// Reads the whole database at `path`, and returns a promise of a report that lists every fault, as
/// JSON.
#[napi(catch_unwind)]
pub fn verify(path: String) -> AsyncTask<Job> {
    start(move || {
        let report = minikv::verify(path, &Options::default());
        Reply::report(report.map_err(|error| Fault::of_tool(error, "verify"))?)
    })
}

/// Opens the folder of backups at `path`.
pub fn backups(path: impl AsRef<Path>) -> Result<Backups, Fault> {
    Ok(Backups::open(path, &Options::default())?)
}

/// Returns a promise of the backups in a folder, oldest first, as JSON.
#[napi(catch_unwind)]
pub fn list_backups(folder: String) -> AsyncTask<Job> {
    start(move || Reply::report(backups(folder)?.list()?))
}

/// Reads all backups in a folder, and returns a promise of the faults, as JSON.
#[napi(catch_unwind)]
pub fn verify_backups(folder: String) -> AsyncTask<Job> {
    start(move || Reply::report(backups(folder)?.verify(|_| ())?))
}

/// Copies backup `number` of a folder to the directory `path`; without `number`, the latest backup.
/// Returns a promise of the backup, as JSON.
#[napi(catch_unwind)]
pub fn restore(folder: String, path: String, number: Option<f64>) -> AsyncTask<Job> {
    start(move || {
        // JavaScript has checked that the number is an integer and not negative.
        let number = number.map(|number| number as u64);
        Reply::report(backups(folder)?.restore(number, path, |_| ())?)
    })
}
