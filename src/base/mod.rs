//! The vocabulary of every layer above: errors, key order, hashes, synchronization.

pub mod comparator;
pub mod error;
pub mod hash;
pub mod prefix;
#[cfg(feature = "serde")]
pub mod serialize;
pub mod size;
pub mod sync;

pub use comparator::{BytewiseComparator, Comparator};
pub use error::{Error, Result};

#[cfg(test)]
pub mod transcript;
