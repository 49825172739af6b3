//! Administration: operations on whole databases, by their directories, and backups, of which an
//! open database makes some, too.

pub(crate) mod backup;
pub(crate) mod checkpoint;
pub(crate) mod destroy;
pub(crate) mod findings;
pub(crate) mod logs;
pub(crate) mod manifest;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod survey;
pub(crate) mod tables;
pub(crate) mod verify;
