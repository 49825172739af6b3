//! Administration: operations on whole databases, which are given by their directories, and
//! backups, which can also be made of an open database.

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
