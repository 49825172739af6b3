//! Filters: small answers to "may this key be here?" that save reading a data block.
//!
//! [`FilterPolicy`] is a kind of filter, [`BloomFilterPolicy`] LevelDB's. A table holds one filter
//! per 2 KiB of data-block offset in its filter block, written by [`FilterBlockBuilder`] and asked
//! through [`FilterBlockReader`]; [`InternalFilterPolicy`] lets filters see user keys only.
//! [`math`] predicts how often a filter is wrong.

pub mod block;
pub mod bloom;
pub mod fuse;
pub mod math;
pub mod policy;
pub mod prefix;
pub mod whole_table;

pub use block::{FilterBlockBuilder, FilterBlockReader};
pub use bloom::BloomFilterPolicy;
pub use policy::{AliasedFilterPolicy, FilterGenerator, FilterPolicy, InternalFilterPolicy};
pub use prefix::{DelimitedPrefix, FixedPrefix, PrefixExtractor};
pub use whole_table::{TableFilter, TableFilterBuilder};
