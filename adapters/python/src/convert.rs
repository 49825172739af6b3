//! Conversion of the library's values and reports to Python objects.

use minikv::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use serde::Serialize;

/// Returns `value` as a Python object, or the caller's default if there is no value.
pub fn value_or<'py>(
    py: Python<'py>,
    value: Option<Bytes>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match value {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

/// Converts a report of the library to dictionaries, lists, strings and numbers.
pub fn report<'py>(py: Python<'py>, report: impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(&report);
    let text = text.map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Returns the class with the parameter `item`, as `list[int]` does for `list`.
pub fn generic_alias<'py>(
    class: &Bound<'py, PyType>,
    item: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    class.py().import("types")?.call_method1("GenericAlias", (class, item))
}
