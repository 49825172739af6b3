//! Conversion of errors to plyvel's exceptions, with LevelDB's texts.

use std::any::Any;

use minikv::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The reason why a call failed.
pub enum Fault {
    /// The library has returned an error.
    Store(Error),
    /// The object, or the database that it belongs to, is closed.
    Closed(&'static str),
    /// The object belongs to the process from which the current process was forked.
    Forked,
    /// A raw iterator is at no entry.
    NoEntry,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Store(error)
    }
}

impl Fault {
    /// Returns the fault of a tool that does `op` to the files of a database.
    pub fn of_tool(error: Error, op: &'static str) -> Fault {
        Fault::from(minikv_status::of_tool(error, op))
    }

    /// Converts the fault to an exception.
    pub fn into_exception(self, py: Python<'_>) -> PyErr {
        match self {
            Fault::Store(Error::Closed) => PyRuntimeError::new_err("Database is closed"),
            Fault::Store(error) => exception(py, class_of(&error), minikv_status::text(&error)),
            Fault::Closed(what) => PyRuntimeError::new_err(what),
            Fault::Forked => PyRuntimeError::new_err(
                "The database was opened before this process was forked; open it here, after the \
                 other process has closed it",
            ),
            Fault::NoEntry => {
                exception(py, "IteratorInvalidError", "The iterator is at no entry".to_owned())
            }
        }
    }
}

/// Returns the exception for a panic in the library.
pub fn of_panic(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    exception(py, "Error", format!("the call panicked: {}", message(panic)))
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<&str>() {
        Some(message) => message,
        None => panic.downcast_ref::<String>().map_or("no message", String::as_str),
    }
}

fn exception(py: Python<'_>, class: &'static str, text: String) -> PyErr {
    static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static IO: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static CORRUPTION: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static INVALID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static CONFLICT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static LOST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class_object = match class {
        "IOError" => &IO,
        "CorruptionError" => &CORRUPTION,
        "IteratorInvalidError" => &INVALID,
        "ConflictError" => &CONFLICT,
        "ChangesLostError" => &LOST,
        _ => &ERROR,
    };
    match class_object.import(py, "minikv._errors", class) {
        Ok(class) => PyErr::from_type(class.clone(), text),
        Err(error) => error,
    }
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } | Error::Locked { .. } => "IOError",
        Error::Corruption(_) => "CorruptionError",
        Error::Conflict { .. } => "ConflictError",
        Error::ChangesLost { .. } => "ChangesLostError",
        Error::ReadOnly { reason } => class_of(reason),
        _ => "Error",
    }
}
