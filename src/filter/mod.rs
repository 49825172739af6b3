//! Filters: compact summaries of a set of keys that let a lookup skip reading a data block.
//!
//! [`FilterPolicy`] is the interface of a kind of filter; [`BloomFilterPolicy`] is LevelDB's. A
//! table's filter block holds one filter per 2 KiB of data-block offset; [`FilterBlockBuilder`]
//! writes it and [`FilterBlockReader`] queries it. Filters hold user keys: the table builder strips
//! the trailer of internal keys. [`whole_table`] is one filter over all keys of a table, [`prefix`] one over their
//! prefixes. [`math`] predicts false-positive rates.

pub mod block;
pub mod bloom;
pub mod fuse;
pub mod math;
pub mod policy;
pub mod prefix;
pub mod whole_table;

pub use block::{FilterBlockBuilder, FilterBlockReader};
pub use bloom::BloomFilterPolicy;
pub use policy::{AliasedFilterPolicy, FilterGenerator, FilterPolicy};
pub use prefix::{DelimitedPrefix, FixedPrefix, PrefixExtractor};
pub use whole_table::{TableFilter, TableFilterBuilder};
