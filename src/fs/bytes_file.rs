//! A file whose bytes are in memory and never change.

use std::io;

use crate::fs::ReadFile;

/// A file open for reading.
#[derive(Debug)]
pub(crate) struct BytesFile(pub Vec<u8>);

impl ReadFile for BytesFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
