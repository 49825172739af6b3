//! The events of an open database, which an observer receives
//! ([`Options::observer`](crate::Options::observer)).

pub use crate::engine::report::event::{
    CompactionKind, Event, EventKind, Observer, StallCause, TableInfo,
};
