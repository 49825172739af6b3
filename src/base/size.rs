//! Formatting of byte counts.

use std::fmt;

/// A number of bytes, displayed in readable units.
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{bytes} B"),
            1024..0x10_0000 => write!(f, "{:.1} KiB", bytes / 1024.0),
            0x10_0000..0x4000_0000 => write!(f, "{:.1} MiB", bytes / 1048576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1073741824.0),
        }
    }
}
