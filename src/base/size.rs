//! Formatting of byte counts.

use std::fmt;

/// A number of bytes, displayed in readable units.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{bytes} B"),
            1024..0x10_0000 => write!(f, "{:.1} KiB", bytes / 1024.0),
            0x10_0000..0x4000_0000 => write!(f, "{:.1} MiB", bytes / 1048576.0),
            0x4000_0000..0x100_0000_0000 => write!(f, "{:.1} GiB", bytes / 1073741824.0),
            _ => write!(f, "{:.1} TiB", bytes / 1099511627776.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_powers_of_1024() {
        let sizes = [0, 1023, 1024, 1 << 20, (1 << 30) - 1, 1 << 30, 1 << 40, u64::MAX];
        assert_eq!(
            sizes.map(|bytes| Size(bytes).to_string()),
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "1.0 MiB",
                "1024.0 MiB",
                "1.0 GiB",
                "1.0 TiB",
                "16777216.0 TiB"
            ]
        );
    }
}
