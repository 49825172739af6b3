//! A block of a table, and lookups in it.
//!
//! The layout is drawn at the head of [`block_builder`](crate::format::block_builder), and defined
//! by LevelDB's `table/block.cc`.
//!
//! Nothing in a block is trusted. The restart array is checked once, when the block is created; an
//! entry is checked when it is decoded. A malformed entry is an error, never the end of the block.
//!
//! | file | content |
//! | --- | --- |
//! | `view` | a block's bytes in memory, and decoding single entries |
//! | `position` | moving from entry to entry, and the plain search |
//! | `heads` | an index in front of a cached block, and searches with it |
//! | `cursor` | a cursor over a block, and the search that uses heads if there are any |
//! | `fences` | the same idea as heads, for a sorted list of keys |

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
