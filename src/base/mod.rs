//! What every layer above speaks of: errors, key order, counters, locks.

pub mod comparator;
pub mod error;
pub mod stats;
pub mod sync;

pub use comparator::{BytewiseComparator, Comparator};
pub use error::{Error, Result};
