//! The room for what differs between operating systems: arguments and output that are not text,
//! terminals, streams, signals and locks. Each system has a module of the same functions.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{
    RawStdout, argument_bytes, columns, is_readable_by_all, is_same_file, lock_holder,
    on_interrupt, os_string, stdout, stream_identity,
};
#[cfg(windows)]
pub use windows::{
    RawStdout, argument_bytes, columns, is_readable_by_all, is_same_file, lock_holder,
    on_interrupt, os_string, stdout, stream_identity,
};
