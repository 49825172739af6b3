//! The changes of a database, as its logs have them.

use std::sync::Arc;

use minikv::{BatchOp, BytewiseComparator, Comparator, WriteBatch};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::call::blocking;
use crate::error::Fault;
use crate::expiry::seconds_of_millis;
use crate::shared::{CLOSED, Shared, either};
use crate::slot::Owned;
use crate::space::SpaceName;

/// The first bytes of the keys of keyspaces; docs/keyspaces.md describes what follows.
const TAG: &[u8] = &[0xff, 0xfe, b'k'];
const ORDINARY: u8 = b's';
const EXPIRING: u8 = b't';

/// The changes of a database after some sequence number, batch by batch.
///
/// An iteration yields the batches there are so far; a later iteration of the same object goes on
/// where this one has ended. Each batch is a Change. Raises ChangesLostError if the logs do not
/// contain all changes any more: then read the whole database, and go on from DB.sequence.
///
/// Created by DB.changes.
#[pyclass(frozen, weakref, module = "minikv")]
pub struct Changes {
    changes: Owned<minikv::follow::Changes>,
    /// Whether the keys may be those of keyspaces, which a database with a comparator lacks.
    has_spaces: bool,
}

/// An operation of a change.
struct Operation {
    space: Option<SpaceName>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    expires: Option<f64>,
}

impl Changes {
    pub fn open(py: Python<'_>, database: &Arc<Shared>, since: Option<u64>) -> PyResult<Changes> {
        let open = || {
            database.with(CLOSED, |handle| {
                let since = since.unwrap_or_else(|| either!(handle, db => db.sequence()));
                let changes = either!(handle, db => db.changes_since(since))?;
                Ok(Owned::new(database.clone(), changes, "Database or changes are closed"))
            })
        };
        let has_spaces = database.order.name() == BytewiseComparator.name();
        Ok(Changes { changes: blocking(py, open)?, has_spaces })
    }

    fn operations(&self, batch: &WriteBatch) -> Result<Vec<Operation>, Fault> {
        let operation = |operation: minikv::Result<BatchOp<'_>>| {
            let (key, value) = match operation? {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            };
            Ok(self.operation(key, value))
        };
        batch.iter().map(operation).collect()
    }

    fn operation(&self, key: &[u8], value: Option<&[u8]>) -> Operation {
        let (space, key) = match split_key(key).filter(|_| self.has_spaces) {
            Some((space, key)) => (Some(space), key),
            None => (None, key),
        };
        let stored = value.filter(|_| space.as_ref().is_some_and(|space| space.is_expiring));
        let (value, expires) = match stored.and_then(|stored| stored.split_last_chunk()) {
            Some((value, millis)) => {
                (Some(value), Some(seconds_of_millis(u64::from_le_bytes(*millis))))
            }
            None => (value, None),
        };
        Operation { space, key: key.to_vec(), value: value.map(<[u8]>::to_vec), expires }
    }
}

/// Splits the key of an entry of a keyspace into the keyspace and the key within it.
fn split_key(key: &[u8]) -> Option<(SpaceName, &[u8])> {
    let (kind, rest) = key.strip_prefix(TAG)?.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (name, key) = rest.split_at_checked(usize::from(*length))?;
    if name.is_empty() || ![ORDINARY, EXPIRING].contains(kind) {
        return None;
    }
    Some((SpaceName { name: name.to_vec(), is_expiring: *kind == EXPIRING }, key))
}

/// Creates the `KeyspaceName` of a keyspace.
pub fn name_of<'py>(py: Python<'py>, space: &SpaceName) -> PyResult<Bound<'py, PyAny>> {
    let name = PyBytes::new(py, &space.name);
    py.import("minikv._records")?.call_method1("KeyspaceName", (name, space.is_expiring))
}

impl Operation {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = if self.value.is_some() { "put" } else { "delete" };
        let key = PyBytes::new(py, &self.key);
        let value = self.value.as_ref().map(|value| PyBytes::new(py, value));
        let space = self.space.as_ref().map(|space| name_of(py, space)).transpose()?;
        let parts = (kind, key, value, space, self.expires);
        py.import("minikv._records")?.call_method1("ChangeOperation", parts)
    }
}

#[pymethods]
impl Changes {
    /// The sequence number of the last operation that was returned: where to go on later.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.changes.with(py, |changes| Ok(changes.sequence()))
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.changes.with(py, |changes| match changes.next() {
            Some(batch) => {
                let batch = batch?;
                Ok(Some((batch.sequence(), self.operations(&batch)?)))
            }
            None => Ok(None),
        })?;
        let Some((sequence, operations)) = next else { return Ok(None) };
        let operations = operations.iter().map(|operation| operation.to_python(py));
        let operations = PyList::new(py, operations.collect::<PyResult<Vec<_>>>()?)?;
        let records = py.import("minikv._records")?;
        records.call_method1("Change", (sequence, operations)).map(Some)
    }

    /// Closes the iteration. Does nothing if it is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.changes.close(py)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (exc_type, exc_value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Bound<'_, PyAny>,
        exc_value: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (exc_type, exc_value, traceback);
        self.close(py).map(|()| false)
    }
}
