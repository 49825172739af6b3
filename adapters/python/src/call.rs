//! Calls from Python into the library. They run without the GIL, and their panics are caught.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::comparator;
use crate::error::{self, Fault};

/// Number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of this process in its chain of forks. The number differs for each process of
/// the chain.
pub fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// Counts a fork. Called in the child process, which cannot use the databases of its parent.
#[pyfunction]
#[pyo3(name = "_forked")]
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// Runs `work` without the GIL, and returns its result. If a comparator raised an exception during
/// `work`, this exception becomes the error of the call or the cause of that error.
///
/// # Errors
/// The exception for the error of `work`. A `RuntimeError` if the caller is a comparator, because
/// `work` may wait for a thread that waits for the comparator.
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

/// Runs `work`, which releases an object. Does not hold the GIL meanwhile, because `work` may wait
/// for threads that need the GIL. If the caller is a comparator, another thread runs `work`.
pub fn at_end(work: impl FnOnce() + Send + 'static) {
    if comparator::is_running() {
        std::thread::spawn(work);
    } else {
        Python::attach(|py| py.detach(work));
    }
}
