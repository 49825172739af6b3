//! Functions of the Python module that take the name of a database instead of a DB.

use minikv::RepairOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::blocking;
use crate::convert::report;
use crate::db::DB;
use crate::error::Fault;
use crate::options::{parse, path_of};

/// Opens the database for reading only and returns a DB. Another process may write to the database
/// at the same time.
///
/// Until DB.refresh is called, the DB shows the database as it was when it was opened. Writes raise
/// Error. The options are the same as those of DB.
#[pyfunction]
#[pyo3(
    signature = (name, **options),
    text_signature = "(name, *, paranoid_checks=None, max_open_files=None, lru_cache_size=None, \
        bloom_filter_bits=0, filter_layout='block', comparator=None, comparator_name=None)"
)]
pub fn open_read_only(
    name: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<DB> {
    DB::open_read_only(name, options)
}

/// Repairs the database: saves all undamaged data, moves damaged files aside, and returns a report.
/// With dry_run=True, only returns the report and changes nothing.
///
/// The options are the same as those of DB.
#[pyfunction]
#[pyo3(
    signature = (name, *, dry_run=false, **options),
    text_signature = "(name, *, dry_run=False, paranoid_checks=None, write_buffer_size=None, \
        max_open_files=None, lru_cache_size=None, block_size=None, \
        block_restart_interval=None, max_file_size=None, compression='snappy', \
        bloom_filter_bits=0, filter_layout='block', comparator=None, comparator_name=None)"
)]
pub fn repair_db<'py>(
    name: &Bound<'py, PyAny>,
    dry_run: bool,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let with = parse(name, options)?;
    let how = RepairOptions::default().dry_run(dry_run);
    let repair = || {
        let report = minikv::repair(&with.path, &with.options, how);
        report.map_err(|error| Fault::of_tool(error, "repair"))
    };
    report(name.py(), blocking(name.py(), repair)?)
}

/// Reads the whole database and returns a report that lists every fault. Changes nothing.
///
/// The options are the same as those of DB.
#[pyfunction]
#[pyo3(
    signature = (name, **options),
    text_signature = "(name, *, comparator=None, comparator_name=None)"
)]
pub fn verify<'py>(
    name: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let with = parse(name, options)?;
    let verify = || {
        let report = minikv::verify(&with.path, &with.options);
        report.map_err(|error| Fault::of_tool(error, "verify"))
    };
    report(name.py(), blocking(name.py(), verify)?)
}

/// Removes the database with this name.
#[pyfunction]
pub fn destroy_db(name: &Bound<'_, PyAny>) -> PyResult<()> {
    let path = path_of(name)?;
    blocking(name.py(), || Ok(minikv::destroy(&path, &minikv::Options::default())?))
}
