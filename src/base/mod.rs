//! The vocabulary of every layer above: errors, key order, counters, synchronization.

pub mod comparator;
pub mod error;
pub mod hash;
#[cfg(feature = "serde")]
pub mod serialize;
pub mod size;
pub mod sync;

pub use comparator::{BytewiseComparator, Comparator};
pub use error::{Error, Result};
