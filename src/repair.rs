//! The parts of the reports of a [repair](crate::repair()) and of the recovery at open.

pub use crate::admin::repair::{LostRange, NewTable, Quarantined, TableOutcome, TableRepair};
pub use crate::engine::report::recovery::LostLog;
