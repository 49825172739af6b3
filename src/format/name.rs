//! Names of a database's files. On-disk format: do not change.
//!
//! ```text
//! CURRENT            names the MANIFEST in use: "MANIFEST-000002\n"
//! LOCK               locked while the database is open
//! LOG, LOG.old       the text logs of LevelDB
//! MANIFEST-000002    version edits
//! 000003.log         a write-ahead log
//! 000005.ldb         a table; .sst in databases of LevelDB before 1.14
//! 000007.dbtmp       a file being written, to be renamed
//! ```
//!
//! A number has at least six digits, and leading zeros only to fill up six: every engine writes
//! `%06llu`. Other spellings of a number (`3.log`) are not names of a database's files. LevelDB
//! reads such names as numbers, but then opens the file with six digits. Defined by LevelDB's
//! `db/filename.cc`.

use std::fmt;

use crate::base::{Error, Result};

/// Name of the file that names the current MANIFEST.
pub const CURRENT: &str = "CURRENT";
/// Name of the lock file.
pub(crate) const LOCK: &str = "LOCK";
/// Name of LevelDB's text log.
pub(crate) const INFO_LOG: &str = "LOG";
/// Name of the text log of LevelDB's previous run.
pub(crate) const OLD_INFO_LOG: &str = "LOG.old";

const MANIFEST_PREFIX: &str = "MANIFEST-";

/// Least number of digits of a number in a name. Do not change: on disk.
const MIN_DIGITS: usize = 6;

/// A parsed file name. `Display` writes the name with a file number of at least six digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileName {
    /// `CURRENT`, which names the MANIFEST in use.
    Current,
    /// `LOCK`, which is locked while the database is open.
    Lock,
    /// LevelDB's text log, `LOG` or `LOG.old`.
    InfoLog {
        /// Whether this is the log of the previous run, `LOG.old`.
        old: bool,
    },
    /// A write-ahead log.
    Log(u64),
    /// A table.
    Table {
        /// The file number.
        number: u64,
        /// Whether the extension is `.sst`, as in databases of LevelDB before 1.14.
        legacy_sst: bool,
    },
    /// A MANIFEST, which holds version edits.
    Manifest(u64),
    /// A temporary file, which is renamed when it is complete.
    Temp(u64),
}

impl FileName {
    /// Parses a file name without its directory. Returns `None` if it is not exactly the name that
    /// `Display` writes for a file of a database.
    pub fn parse(name: &str) -> Option<FileName> {
        match name {
            CURRENT => return Some(FileName::Current),
            LOCK => return Some(FileName::Lock),
            INFO_LOG => return Some(FileName::InfoLog { old: false }),
            OLD_INFO_LOG => return Some(FileName::InfoLog { old: true }),
            _ => {}
        }
        if let Some(number) = name.strip_prefix(MANIFEST_PREFIX) {
            return Some(FileName::Manifest(parse_number(number)?));
        }
        let (number, extension) = name.split_once('.')?;
        let number = parse_number(number)?;
        match extension {
            "log" => Some(FileName::Log(number)),
            "ldb" => Some(FileName::Table { number, legacy_sst: false }),
            "sst" => Some(FileName::Table { number, legacy_sst: true }),
            "dbtmp" => Some(FileName::Temp(number)),
            _ => None,
        }
    }

    /// Returns the file number, if the name has one.
    pub fn number(&self) -> Option<u64> {
        match *self {
            FileName::Log(number)
            | FileName::Table { number, .. }
            | FileName::Manifest(number)
            | FileName::Temp(number) => Some(number),
            FileName::Current | FileName::Lock | FileName::InfoLog { .. } => None,
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Current => f.write_str(CURRENT),
            FileName::Lock => f.write_str(LOCK),
            FileName::InfoLog { old: false } => f.write_str(INFO_LOG),
            FileName::InfoLog { old: true } => f.write_str(OLD_INFO_LOG),
            FileName::Log(number) => write!(f, "{number:06}.log"),
            FileName::Table { number, legacy_sst: false } => write!(f, "{number:06}.ldb"),
            FileName::Table { number, legacy_sst: true } => write!(f, "{number:06}.sst"),
            FileName::Manifest(number) => write!(f, "{MANIFEST_PREFIX}{number:06}"),
            FileName::Temp(number) => write!(f, "{number:06}.dbtmp"),
        }
    }
}

/// Returns the name of the write-ahead log with this number.
pub fn log_name(number: u64) -> String {
    FileName::Log(number).to_string()
}

/// Returns the name of the table with this number.
pub fn table_name(number: u64) -> String {
    FileName::Table { number, legacy_sst: false }.to_string()
}

/// Returns the name that LevelDB before 1.14 gave to the table with this number.
pub fn legacy_table_name(number: u64) -> String {
    FileName::Table { number, legacy_sst: true }.to_string()
}

/// Returns the name of the MANIFEST with this number.
pub fn manifest_name(number: u64) -> String {
    FileName::Manifest(number).to_string()
}

/// Returns the name of the temporary file with this number.
pub(crate) fn temp_name(number: u64) -> String {
    FileName::Temp(number).to_string()
}

/// Returns the contents of a `CURRENT` file that names the MANIFEST with this number.
pub fn current_contents(manifest_number: u64) -> String {
    format!("{}\n", manifest_name(manifest_number))
}

/// Returns the name of the MANIFEST in `contents`, the contents of a `CURRENT` file.
///
/// # Errors
/// Corruption, unless `contents` is exactly `MANIFEST-<number>` followed by a newline, or by a
/// carriage return and a newline, as tools for Minecraft write. Any other contents could be a path
/// that leads out of the directory.
pub fn parse_current(contents: &[u8]) -> Result<&str> {
    let Some((b'\n', name)) = contents.split_last() else {
        return Err(bad_current("CURRENT does not end in a newline", contents));
    };
    match std::str::from_utf8(name.strip_suffix(b"\r").unwrap_or(name)) {
        Ok(name) if matches!(FileName::parse(name), Some(FileName::Manifest(_))) => Ok(name),
        _ => Err(bad_current("CURRENT names no MANIFEST", contents)),
    }
}

fn bad_current(what: &str, contents: &[u8]) -> Error {
    const SHOWN_BYTES: usize = 64;
    let shown = contents[..contents.len().min(SHOWN_BYTES)].escape_ascii();
    Error::mismatch(what, "MANIFEST-<six digits or more> and a newline", format!("\"{shown}\""))
}

/// Parses a number as it is written in names: decimal digits, and leading zeros only to fill up
/// [`MIN_DIGITS`].
pub(crate) fn parse_number(digits: &str) -> Option<u64> {
    let is_filled = digits.len() == MIN_DIGITS;
    let is_long = digits.len() > MIN_DIGITS && !digits.starts_with('0');
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    ((is_filled || is_long) && all_digits).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let table = |number, legacy_sst| FileName::Table { number, legacy_sst };
        for (name, expected) in [
            ("000100.log", FileName::Log(100)),
            ("000000.log", FileName::Log(0)),
            ("000000.sst", table(0, true)),
            ("000000.ldb", table(0, false)),
            ("1000000.ldb", table(1_000_000, false)),
            ("CURRENT", FileName::Current),
            ("LOCK", FileName::Lock),
            ("MANIFEST-000002", FileName::Manifest(2)),
            ("MANIFEST-1234567", FileName::Manifest(1_234_567)),
            ("LOG", FileName::InfoLog { old: false }),
            ("LOG.old", FileName::InfoLog { old: true }),
            ("18446744073709551615.log", FileName::Log(u64::MAX)),
            ("000012.dbtmp", FileName::Temp(12)),
        ] {
            assert_eq!(FileName::parse(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for name in [
            "",
            "foo",
            "foo-dx-100.log",
            ".log",
            "manifest",
            "CURREN",
            "CURRENTX",
            "MANIFES",
            "MANIFEST",
            "MANIFEST-",
            "XMANIFEST-3",
            "MANIFEST-3x",
            "LOC",
            "LOCKx",
            "LO",
            "LOGx",
            "18446744073709551616.log",
            "184467440737095516150.log",
            "100",
            "100.",
            "100.lop",
            // Without six digits, or with more zeros than fill up six.
            "100.log",
            "0.sst",
            "99999.ldb",
            "0000007.log",
            "0100000.log",
            "00018446744073709551615.log",
            "MANIFEST-2",
            "MANIFEST-0000002",
            "7.dbtmp",
            "+1.log",
            "-1.log",
            "1 .log",
            "1.log.bak",
            "MANIFEST-+3",
            "../1.log",
            "1.LDB",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn written_names_are_read_back() {
        for number in [0, 1, 999_999, 1_000_000, u64::MAX] {
            for name in [
                log_name(number),
                table_name(number),
                legacy_table_name(number),
                manifest_name(number),
                temp_name(number),
            ] {
                let parsed = FileName::parse(&name).unwrap();
                assert_eq!((parsed.to_string(), parsed.number()), (name, Some(number)));
            }
        }
        assert_eq!(log_name(3), "000003.log");
        assert_eq!(table_name(5), "000005.ldb");
        assert_eq!(legacy_table_name(5), "000005.sst");
        assert_eq!(manifest_name(2), "MANIFEST-000002");
        assert_eq!(temp_name(7), "000007.dbtmp");
    }

    #[test]
    fn current_names_a_manifest_and_nothing_else() {
        assert_eq!(parse_current(b"MANIFEST-000002\n").unwrap(), "MANIFEST-000002");
        assert_eq!(parse_current(b"MANIFEST-000002\r\n").unwrap(), "MANIFEST-000002");
        assert_eq!(parse_current(current_contents(7).as_bytes()).unwrap(), "MANIFEST-000007");
        for contents in [
            &b""[..],
            b"\n",
            b"MANIFEST-000002",
            b"MANIFEST-000002\n\n",
            b"MANIFEST-000002\r",
            b"MANIFEST-000002\r\r\n",
            b"../../x\n",
            b"../MANIFEST-000002\n",
            b"MANIFEST-000002/x\n",
            b"MANIFEST-\n",
            b"MANIFEST-2\n",
            b"MANIFEST-\xff\n",
            b"000002.log\n",
            b"MANIFEST-18446744073709551616\n",
        ] {
            let error = parse_current(contents).unwrap_err();
            assert!(error.is_corruption(), "{error}");
        }
        let error = parse_current(&[b'x'; 1 << 20]).unwrap_err();
        assert!(error.to_string().len() < 300, "not all of a long file is shown");
    }
}
