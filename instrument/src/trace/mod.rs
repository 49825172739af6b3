//! A page that shows databases at work: their flushes, compactions, stalls and lookups, step by
//! step. The page is a single file that needs no other files.

mod document;
mod lookups;
mod page;
mod recorder;
mod run;

pub use recorder::Recorder;
