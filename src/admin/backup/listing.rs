//! The listing of a backup: the names of its files, with their lengths and checksums. A backup is
//! complete once its listing exists.
//!
//! A listing is text. Each line ends in a line feed:
//!
//! ```text
//! minikv backup 1
//! made 1763855000                     seconds since 1970
//! copied 1234567                      bytes that this backup added to the folder
//! file 000005.ldb 2102933 1f60ab3c    name, bytes, CRC-32C in hexadecimal; ascending by name
//! end 7ac3d59e                        CRC-32C of all preceding lines
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::clock::seconds_of;
use crate::base::{Error, Feature, Result};
use crate::format::crc;
use crate::format::name::FileName;

/// First line of a listing.
const HEADER: &str = "minikv backup 1";

/// The listing of one backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// Time of the backup, in whole seconds.
    pub made: SystemTime,
    /// Number of bytes that the backup added to the folder.
    pub copied_bytes: u64,
    /// Length and checksum of each file, by name.
    pub files: BTreeMap<String, FileSum>,
}

/// Length and checksum of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSum {
    /// Length, in bytes.
    pub bytes: u64,
    /// CRC-32C of the contents.
    pub checksum: u32,
}

impl Listing {
    /// Returns a listing without files.
    pub(super) fn empty() -> Listing {
        Listing { made: UNIX_EPOCH, copied_bytes: 0, files: BTreeMap::new() }
    }

    /// Returns the total length of the files, in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns the contents of the listing file.
    pub(super) fn encode(&self) -> String {
        let made = seconds_of(self.made);
        let mut text = format!("{HEADER}\nmade {made}\ncopied {}\n", self.copied_bytes);
        for (name, sum) in &self.files {
            let _infallible = writeln!(text, "file {name} {} {:08x}", sum.bytes, sum.checksum);
        }
        let checksum = crc::value(text.as_bytes());
        let _infallible = writeln!(text, "end {checksum:08x}");
        text
    }

    /// Decodes the contents of a listing file.
    ///
    /// # Errors
    /// [`Error::Corruption`] without a path; [`Error::Unsupported`] if the format is unknown.
    pub(super) fn decode(contents: &[u8]) -> Result<Listing> {
        let text = std::str::from_utf8(contents).map_err(|_| damaged("it is not UTF-8"))?;
        let header = text.lines().next().unwrap_or_default();
        if header != HEADER {
            return match header.strip_prefix("minikv backup ") {
                Some(format) => Err(Error::unsupported(
                    Feature::BackupFormat,
                    format.escape_debug().to_string(),
                )),
                None => Err(damaged("it has no header")),
            };
        }
        let end = text.rfind("end ").ok_or_else(|| damaged("it has no end"))?;
        let (lines, end) = text.split_at(end);
        let expected = format!("end {:08x}\n", crc::value(lines.as_bytes()));
        if end != expected {
            return Err(Error::mismatch("checksum of a backup's listing", expected.trim(), end));
        }
        let mut listing = Listing::empty();
        for line in lines.lines().skip(1) {
            listing.add_line(line).ok_or_else(|| damaged(line.escape_debug().to_string()))?;
        }
        Ok(listing)
    }

    /// Decodes one line and adds it to the listing. Returns `None` if the line is malformed.
    fn add_line(&mut self, line: &str) -> Option<()> {
        let fields = line.split(' ').collect::<Vec<_>>();
        match *fields.as_slice() {
            ["made", seconds] => {
                self.made = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
            }
            ["copied", bytes] => self.copied_bytes = bytes.parse().ok()?,
            ["file", name, bytes, checksum] => {
                // Only names of database files are accepted: another name could be a path that
                // leads out of the folder. LOCK is never copied, because a restore creates a new
                // LOCK file.
                FileName::parse(name).filter(|name| *name != FileName::Lock)?;
                let checksum = u32::from_str_radix(checksum, 16).ok()?;
                let sum = FileSum { bytes: bytes.parse().ok()?, checksum };
                if self.files.insert(name.to_owned(), sum).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

fn damaged(found: impl Into<String>) -> Error {
    let found = found.into();
    Error::mismatch("malformed listing of a backup", "the lines of a listing", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        let sum = |bytes, checksum| FileSum { bytes, checksum };
        let files = [("000005.ldb", sum(12, 0xab)), ("CURRENT", sum(16, u32::MAX))];
        let files = files.map(|(name, sum)| (name.to_owned(), sum)).into();
        let made = UNIX_EPOCH + Duration::from_secs(1_763_855_000);
        Listing { made, copied_bytes: 28, files }
    }

    #[test]
    fn a_listing_is_read_back() {
        let text = listing().encode();
        assert_eq!(
            text,
            "minikv backup 1\nmade 1763855000\ncopied 28\nfile 000005.ldb 12 000000ab\n\
             file CURRENT 16 ffffffff\nend ce37220a\n"
        );
        assert_eq!(Listing::decode(text.as_bytes()).unwrap(), listing());
        assert_eq!(listing().file_bytes(), 28);
    }

    #[test]
    fn every_changed_or_missing_byte_of_a_listing_is_an_error() {
        let text = listing().encode().into_bytes();
        for at in 0..text.len() {
            assert!(Listing::decode(&text[..at]).is_err(), "{at} bytes");
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                assert!(Listing::decode(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_listing_names_only_files_of_a_database_and_each_once() {
        for name in ["../000005.ldb", "/etc/passwd", "notes", "000005.ldb/x", "LOCK"] {
            let files = [(name.to_owned(), FileSum { bytes: 1, checksum: 1 })].into();
            let text = Listing { files, ..listing() }.encode();
            let error = Listing::decode(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        let twice = "minikv backup 1\nfile CURRENT 16 0\nfile CURRENT 16 0\n";
        let text = format!("{twice}end {:08x}\n", crc::value(twice.as_bytes()));
        assert!(Listing::decode(text.as_bytes()).unwrap_err().is_corruption());
        // No `SystemTime` is that late.
        let late = format!("minikv backup 1\nmade {}\n", u64::MAX);
        let text = format!("{late}end {:08x}\n", crc::value(late.as_bytes()));
        assert!(Listing::decode(text.as_bytes()).unwrap_err().is_corruption());
        let error = Listing::decode(b"minikv backup 2\nend 0\n").unwrap_err();
        assert_eq!(error.to_string(), "unsupported backup format 2");
    }
}
