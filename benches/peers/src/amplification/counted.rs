//! The interface to the counters of an engine.

use minikv_workloads::{Result, Store};

use super::Measured;
use super::replay::Lookups;

/// An open database whose counters can be read.
pub trait Counted {
    fn store(&self) -> &dyn Store;

    /// Adds the engine's own counts for its levels and its log.
    fn tell_writes(&self, measured: &mut Measured) -> Result<()>;

    /// Returns the number of data blocks that gets have searched so far, from a cache or from
    /// files, or `None` if the engine does not count data blocks.
    fn data_blocks(&self) -> Option<u64>;

    /// Closes the database, and adds the counts that are taken from its directory.
    fn close(self: Box<Self>, lookups: &Lookups, measured: &mut Measured) -> Result<()>;
}
