//! What every layer above speaks of: errors, key order, counters.

pub mod comparator;
pub mod error;
pub mod stats;

pub use comparator::{BytewiseComparator, Comparator};
pub use error::{Error, Result};
