//! Numbers, sizes and bytes as text.

/// Returns a number and its noun, such as `1 entry`, `2 entries` or `104,334 entries`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

/// Returns a number with thousands separators, such as `104,334`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a size in bytes with a readable unit, such as `512 B`, `4.0 KiB` or `1.2 GiB`.
pub fn size(bytes: u64) -> String {
    let n = bytes as f64;
    match bytes {
        0..0x400 => format!("{n} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", n / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", n / 1_048_576.0),
        0x4000_0000..0x100_0000_0000 => format!("{:.1} GiB", n / 1_073_741_824.0),
        _ => format!("{:.1} TiB", n / 1_099_511_627_776.0),
    }
}

/// Returns bytes as text: printable ASCII stands for itself, a backslash is `\\`, and every other
/// byte is `\xHH`.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(104_334), "104,334");
        assert_eq!(count(1, "entry", "entries"), "1 entry");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(4096), "4.0 KiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
        assert_eq!(escaped(b"a\\b\x00\xff"), "a\\\\b\\x00\\xff");
    }
}
