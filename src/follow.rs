//! The changes of a database, for replicas and other followers:
//! [`Db::changes_since`](crate::Db::changes_since),
//! [`ReadOnlyDb::refresh`](crate::ReadOnlyDb::refresh) and
//! [`ReadOnlyDb::follow`](crate::ReadOnlyDb::follow).

pub use crate::engine::follow::Refreshed;
pub use crate::engine::follow::changes::Changes;
pub use crate::engine::follow::poll::Follow;
