//! The interface to the counters of engines.

use minikv_workloads::{Result, Store};

use super::Measured;
use super::replay::Lookups;

/// An open database whose counters can be read.
pub trait Counted {
    fn store(&self) -> &dyn Store;

    /// Adds the engine's own counts for its levels and its log to `measured`.
    fn tell_writes(&self, measured: &mut Measured) -> Result<()>;

    /// Returns the number of data blocks, from a cache or from files, that gets have searched so
    /// far. Returns `None` if the engine does not count data blocks.
    fn data_blocks(&self) -> Option<u64>;

    /// Closes the database, and adds the counts that are taken from the directory of the database
    /// to `measured`.
    fn close(self: Box<Self>, lookups: &Lookups, measured: &mut Measured) -> Result<()>;
}
