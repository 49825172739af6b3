//! Comparators written as Python functions.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::panic::resume_unwind;

use minikv::Comparator;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

thread_local! {
    /// Whether this thread is inside a comparator.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is running a call from Python code, which can raise an exception.
    static CALLED: Cell<bool> = const { Cell::new(false) };
    /// The exception that a comparator raised, kept for the call that needed the comparison.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Returns whether this thread is inside a comparator.
pub fn is_running() -> bool {
    RUNNING.get()
}

/// Runs `work` for a caller in Python. Returns its result, and any exception that a comparator
/// raised in this thread during `work`.
pub fn with_caller<T>(work: impl FnOnce() -> T) -> (T, Option<PyErr>) {
    CALLED.set(true);
    let result = work();
    CALLED.set(false);
    (result, RAISED.take())
}

/// A comparator that calls a Python function. If the function raises an exception, there is no
/// order to return, so the comparison unwinds. If the library was doing work for other threads, it
/// catches the unwinding and returns an error.
pub struct PyComparator {
    name: String,
    function: Py<PyAny>,
}

impl PyComparator {
    /// Returns a comparator that calls `function`, which returns a negative number, 0 or a positive
    /// number.
    pub fn new(name: String, function: Py<PyAny>) -> PyComparator {
        PyComparator { name, function }
    }

    fn call(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let sign = self.function.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        match sign.extract::<i64>() {
            Ok(sign) => Ok(sign.cmp(&0)),
            Err(_) => sign.compare(0),
        }
    }
}

impl fmt::Debug for PyComparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Comparator for PyComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let compare = |py: Python<'_>| {
            let outer = RUNNING.replace(true);
            let order = self.call(py, a, b);
            RUNNING.set(outer);
            order.map_err(|error| {
                let message = format!("the comparator {} raised {error}", self.name);
                report(py, error, self.function.bind(py));
                message
            })
        };
        match Python::try_attach(compare) {
            Some(Ok(order)) => order,
            Some(Err(message)) => resume_unwind(Box::new(message)),
            None => resume_unwind(Box::new("the Python interpreter has ended".to_owned())),
        }
    }
}

/// Keeps `error` for the call from Python code that this thread is running. In a background thread,
/// which has no caller in Python, passes `error` to `sys.unraisablehook`.
fn report(py: Python<'_>, error: PyErr, function: &Bound<'_, PyAny>) {
    if CALLED.get() {
        RAISED.set(Some(error));
    } else {
        error.write_unraisable(py, Some(function));
    }
}
