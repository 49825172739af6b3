//! Calls from Python into the library. They run without the GIL, and their panics are caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::comparator;
use crate::error::{self, Fault};

/// Number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs in each process of a chain of forks.
pub fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// Counts a fork. Called in the child process, which cannot use the databases of its parent.
#[pyfunction]
#[pyo3(name = "_forked")]
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Runs `work` without the GIL, and returns its result. An exception that a comparator raised
/// during `work` becomes the error, or the cause of the error.
///
/// # Errors
/// The exception for the error of `work`; a `RuntimeError` if the caller is a comparator, because
/// the work may wait for the thread that waits for the comparator.
pub fn blocking<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Fault> + Send,
) -> PyResult<T> {
    if comparator::is_running() {
        return Err(PyRuntimeError::new_err("A comparator cannot use minikv"));
    }
    let work = || comparator::with_caller(|| catch_unwind(AssertUnwindSafe(work)));
    let (result, raised) = py.detach(work);
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(fault)) => {
            let error = fault.into_exception(py);
            error.set_cause(py, raised);
            Err(error)
        }
        Err(panic) => Err(raised.unwrap_or_else(|| error::of_panic(py, &*panic))),
    }
}

/// Runs `work`, which releases an object, without the GIL, because `work` may wait for threads that
/// need the GIL. If the caller is a comparator, another thread runs `work`.
pub fn at_end(work: impl FnOnce() + Send + 'static) {
    if comparator::is_running() {
        std::thread::spawn(work);
    } else {
        Python::attach(|py| py.detach(work));
    }
}
