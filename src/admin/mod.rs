//! Work on a database that is not open: what an administrator does.

pub mod advice;
pub mod checkpoint;
pub mod destroy;
pub mod shadow;
