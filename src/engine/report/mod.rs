//! Reports: the public types that say what the engine did and in what state it is. They are plain
//! data for every part of the engine, and import nothing of it except the counts of reads.

pub(crate) mod event;
pub(crate) mod health;
pub(crate) mod recovery;
pub(crate) mod stats;
