//! Loops that continue system calls after short counts and interruptions.
//!
//! Every filesystem of this crate reads and writes through these loops, so that a simulated short
//! read exercises the same code as a real one.

use std::io;

/// Reads at `offset` until `buf` is full or the file ends. Returns the number of bytes read.
pub(super) fn read_fully_at(
    buf: &mut [u8],
    offset: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let Some(at) = offset.checked_add(done as u64) else { break };
        match read_at(&mut buf[done..], at) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write_fully_at(
    bytes: &[u8],
    offset: u64,
    mut write_at: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        match write_at(&bytes[done..], at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_interrupted_reads_are_carried_on() {
        let data: Vec<u8> = (0..100).collect();
        let mut calls = 0;
        let mut read_at = |buf: &mut [u8], offset: u64| {
            calls += 1;
            if calls % 3 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let rest = &data[(offset as usize).min(data.len())..];
            let count = rest.len().min(buf.len()).min(7);
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        let mut buf = [0; 60];
        assert_eq!(read_fully_at(&mut buf, 30, &mut read_at).unwrap(), 60);
        assert_eq!(buf[..], data[30..90]);
        assert_eq!(read_fully_at(&mut buf, 90, &mut read_at).unwrap(), 10);
        assert_eq!(buf[..10], data[90..]);
        assert_eq!(read_fully_at(&mut buf, u64::MAX, |_, _| Ok(1)).unwrap(), 1);
    }

    #[test]
    fn short_and_interrupted_writes_are_carried_on() {
        let mut file = Vec::new();
        let mut calls = 0;
        write_fully_at(b"hello, disk", 3, |bytes, offset| {
            calls += 1;
            if calls % 2 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            assert_eq!(offset, 3 + file.len() as u64);
            let count = bytes.len().min(4);
            file.extend_from_slice(&bytes[..count]);
            Ok(count)
        })
        .unwrap();
        assert_eq!(file, b"hello, disk");
    }

    #[test]
    fn writes_that_get_nowhere_end() {
        let error = write_fully_at(b"x", 0, |_, _| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        let error = write_fully_at(b"xy", u64::MAX, |_, _| Ok(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
