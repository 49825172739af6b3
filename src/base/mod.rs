//! Basic types for all other layers: errors, key order, hashes, random numbers, synchronization.

pub(crate) mod clock;
pub(crate) mod comparator;
pub(crate) mod entry_sum;
pub(crate) mod error;
pub mod hash;
pub(crate) mod key_bounds;
pub(crate) mod lock_holder;
pub(crate) mod prefix;
pub(crate) mod process;
pub mod random;
#[cfg(feature = "serde")]
pub(crate) mod serialize;
pub(crate) mod size;
pub(crate) mod sync;

pub(crate) use comparator::{BytewiseComparator, Comparator};
pub(crate) use error::{Error, Feature, Result};

#[cfg(test)]
pub(crate) mod transcript;
