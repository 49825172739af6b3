//! Filters: compact summaries of a set of keys that let a lookup skip reading a data block.
//!
//! [`FilterPolicy`] is the interface of a kind of filter; [`BloomFilterPolicy`] is LevelDB's kind.
//! A table's filter block (`block`) has one filter for each 2 KiB range of data-block offsets.
//! Filters are built from user keys and asked for them: `table` removes the trailers of internal
//! keys. `whole_table` is a filter over all keys of a table, and `prefix` is a filter over the
//! prefixes of these keys; `fuse` builds both, which are no bloom filters. `keyspace` lets each
//! keyspace have its own prefixes. [`math`] predicts false-positive rates.

pub(crate) mod block;
pub(crate) mod bloom;
pub(crate) mod fuse;
pub(crate) mod keyspace;
pub mod math;
pub(crate) mod policy;
pub(crate) mod prefix;
pub(crate) mod whole_table;

pub use block::{FilterBlockBuilder, FilterBlockReader};
pub(crate) use bloom::BloomFilterPolicy;
pub(crate) use policy::{AliasedFilterPolicy, FilterPolicy};
pub(crate) use prefix::PrefixExtractor;
pub use prefix::prefix_of_range;
pub use whole_table::{MAX_BITS_PER_KEY, TABLE_FILTER_NAME, TableFilter, TableFilterBuilder};
