//! minikv for Python, with plyvel's interface: the native module `minikv._minikv`.
//!
//! Every call into the library goes through [`call::blocking`], which releases the GIL. A thread
//! also waits without the GIL for a lock that other threads hold during such calls. Otherwise it
//! could deadlock with the holder of the lock, which needs the GIL to call a comparator written in
//! Python.

mod backup;
mod batch;
mod call;
mod changes;
mod comparator;
mod convert;
mod db;
mod error;
mod expiry;
mod iterator;
mod keyspace;
mod options;
mod prefixed;
mod range;
mod shared;
mod slot;
mod snapshot;
mod space;
mod tools;
mod transaction;
mod walk;

use pyo3::prelude::*;

/// LevelDB-compatible key-value store with plyvel's interface.
#[pymodule]
mod _minikv {
    #[pymodule_export]
    use crate::backup::{backups, restore, verify_backups};
    #[pymodule_export]
    use crate::batch::WriteBatch;
    #[pymodule_export]
    use crate::call::forked;
    #[pymodule_export]
    use crate::changes::Changes;
    #[pymodule_export]
    use crate::db::DB;
    #[pymodule_export]
    use crate::iterator::{Iterator, RawIterator};
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::prefixed::PrefixedDB;
    #[pymodule_export]
    use crate::shared::close_all;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::tools::{destroy_db, open_read_only, repair_db, verify};
    #[pymodule_export]
    use crate::transaction::Transaction;
}
