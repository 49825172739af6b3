//! Administration: operations on a database that is not open.

pub mod checkpoint;
pub mod destroy;
pub mod findings;
pub mod logs;
pub mod manifest;
pub mod repair;
pub mod scan;
pub mod survey;
pub mod tables;
pub mod verify;
