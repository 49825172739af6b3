//! Functions that take the path of a database instead of an open database.

use minikv::{Options, RepairOptions};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

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
        Reply::report(minikv::repair(path, &Options::default(), how)?)
    })
}

/// Reads the whole database at `path`, and returns a promise of a report that lists every fault, as
/// JSON.
#[napi(catch_unwind)]
pub fn verify(path: String) -> AsyncTask<Job> {
    start(move || Reply::report(minikv::verify(path, &Options::default())?))
}
