//! Parts that several test programs share, in this workspace and in those of `tests/interop` and
//! `fuzz`.

pub mod comparators;
pub mod contents;
pub mod crash;
pub mod forge;
pub mod functions;
pub mod recount;
pub mod rng;
pub mod system;
