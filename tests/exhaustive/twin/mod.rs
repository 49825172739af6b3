//! Decoders of the same bytes, written from LevelDB's documents and not from the library. They are
//! slow and plain, and use nothing of the library, so that they do not share its mistakes.
//!
//! LevelDB's rule is the rule, and where minikv's documented rule is another one, a comment says
//! where it is documented.

pub mod batch;
pub mod block;
pub mod coding;
pub mod edit;
pub mod filter;
pub mod handle;
pub mod log;
pub mod name;

/// The reason why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    Damaged,
    /// Written by another engine, or by a later version.
    Unknown,
}
