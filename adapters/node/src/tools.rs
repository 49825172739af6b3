//! Functions on databases that need not be open.

use minikv::{Options, RepairOptions};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::job::{Job, Reply, start};

/// Removes the database.
#[napi(catch_unwind)]
pub fn destroy(path: String) -> AsyncTask<Job> {
    start(move || {
        minikv::destroy(path, &Options::default())?;
        Ok(Reply::Nothing)
    })
}

/// Repairs the database, and returns a promise of a report, as JSON. With `dry_run`, only makes the
/// report and changes nothing.
#[napi(catch_unwind)]
pub fn repair(path: String, dry_run: bool) -> AsyncTask<Job> {
    start(move || {
        let how = RepairOptions::default().dry_run(dry_run);
        Reply::report(minikv::repair(path, &Options::default(), how)?)
    })
}

/// Reads the whole database, and returns a promise of a report of every fault, as JSON.
#[napi(catch_unwind)]
pub fn verify(path: String) -> AsyncTask<Job> {
    start(move || Reply::report(minikv::verify(path, &Options::default())?))
}
