//! Work on a database that is not open: what an administrator does.

pub mod destroy;
