//! Folders of backups, to which [`Db::backup`](crate::Db::backup) and
//! [`minikv::backup`](crate::backup()) add.

pub use crate::admin::backup::{Backup, Backups};
