//! A file that is nothing but its bytes.

use std::sync::Arc;
use std::{fmt, io};

use minikv::fs::ReadFile;

/// A file in memory, for readers of single files.
pub struct Contents(Vec<u8>);

impl Contents {
    pub fn shared(bytes: impl Into<Vec<u8>>) -> Arc<dyn ReadFile> {
        Arc::new(Contents(bytes.into()))
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a file of {} bytes", self.0.len())
    }
}

impl ReadFile for Contents {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
