//! Blocks of a table, and lookups in a block.
//!
//! The documentation of [`block_builder`](crate::format::block_builder) shows the layout, which
//! LevelDB's `table/block.cc` defines.
//!
//! No data in a block is trusted. The restart array is checked once, when the block is created; an
//! entry is checked when it is decoded. A malformed entry is an error, and is never treated as the
//! end of the block.
//!
//! | file | content |
//! | --- | --- |
//! | `view` | a block's bytes in memory, and the decoding of single entries |
//! | `position` | moving from entry to entry, and the plain search |
//! | `heads` | an index stored in front of a cached block, and searches that use this index |
//! | `cursor` | a cursor over a block, and the search that uses heads if there are any |
//! | `fences` | an index like heads, but for a sorted list of keys |

pub mod cursor;
pub(crate) mod fences;
pub(crate) mod heads;
mod position;
mod view;

pub(crate) use heads::ByHeads;
pub use view::Block;
pub(crate) use view::{BlockView, LooseBlock, SharedBlock};

#[cfg(test)]
mod tests;
