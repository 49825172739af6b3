//! The bytes of a file, in copy-on-write pages that clones share.

use std::sync::Arc;

/// Size of a page, in bytes. With larger pages, a write copies more.
pub(super) const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// The contents of a file. Bytes that were never written have no page and read as zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Pages by index. The vector may end before the file does. In the last page, bytes past the
    /// end of the file are zero.
    pages: Vec<Option<Arc<Page>>>,
    len: u64,
}

/// Returns the pages of `offset..offset + len`: for each page its index, the range within the page,
/// and the range in a buffer of `len` bytes.
fn spans(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let index = (at / PAGE_BYTES as u64) as usize;
        let start = (at % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - start).min(len - done);
        done += count;
        Some((index, start..start + count, done - count..done))
    })
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the disk space taken by the pages, in bytes.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE_BYTES as u64
    }

    /// Returns how many of `len` bytes at `offset` can be written if only `free_bytes` bytes of
    /// disk space are left.
    pub(super) fn fitting(&self, offset: u64, len: usize, free_bytes: u64) -> usize {
        let mut free_pages = free_bytes / PAGE_BYTES as u64;
        for (index, _, buffer) in spans(offset, len) {
            if self.pages.get(index).is_none_or(Option::is_none) {
                if free_pages == 0 {
                    return buffer.start;
                }
                free_pages -= 1;
            }
        }
        len
    }

    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buf.len().min(rest);
        for (index, within, buffer) in spans(offset, count) {
            match self.pages.get(index) {
                Some(Some(page)) => buf[buffer].copy_from_slice(&page[within]),
                _ => buf[buffer].fill(0),
            }
        }
        count
    }

    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        for (index, within, buffer) in spans(offset, bytes.len()) {
            self.page_mut(index)[within].copy_from_slice(&bytes[buffer]);
        }
        if !bytes.is_empty() {
            self.len = self.len.max(offset + bytes.len() as u64);
        }
    }

    fn page_mut(&mut self, index: usize) -> &mut Page {
        if index >= self.pages.len() {
            self.pages.resize(index + 1, None);
        }
        Arc::make_mut(self.pages[index].get_or_insert_with(|| Arc::new([0; PAGE_BYTES])))
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let whole = (len / PAGE_BYTES as u64) as usize;
            let rest = (len % PAGE_BYTES as u64) as usize;
            self.pages.truncate(whole + usize::from(rest > 0));
            if let Some(Some(page)) = self.pages.get_mut(whole) {
                Arc::make_mut(page)[rest..].fill(0);
            }
        }
        self.len = len;
    }

    /// Replaces the pages of `offset..offset + len` with those of `other`.
    pub(super) fn copy_pages(&mut self, other: &Content, offset: u64, len: usize) {
        for (index, ..) in spans(offset, len) {
            if index >= self.pages.len() {
                self.pages.resize(index + 1, None);
            }
            self.pages[index] = other.pages.get(index).cloned().flatten();
        }
    }

    /// In the byte at `offset`, flips the bits that are set in `mask`. Does nothing past the end of
    /// the file.
    pub(super) fn flip(&mut self, offset: u64, mask: u8) {
        if offset < self.len {
            let page = self.page_mut((offset / PAGE_BYTES as u64) as usize);
            page[(offset % PAGE_BYTES as u64) as usize] ^= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Rng;

    #[test]
    fn behaves_as_a_vector() {
        let mut rng = Rng::new(3);
        let mut content = Content::default();
        let mut model: Vec<u8> = Vec::new();
        for step in 0..3_000u32 {
            let before = (content.clone(), model.clone());
            let offset = rng.below(20_000);
            match rng.below(4) {
                0 => {
                    content.set_len(offset);
                    model.resize(offset as usize, 0);
                }
                1 => {
                    content.flip(offset, 0x10);
                    if let Some(byte) = model.get_mut(offset as usize) {
                        *byte ^= 0x10;
                    }
                }
                _ => {
                    let bytes = vec![step as u8; rng.below(9_000) as usize];
                    let end = offset as usize + bytes.len();
                    content.write_at(offset, &bytes);
                    if !bytes.is_empty() {
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].copy_from_slice(&bytes);
                    }
                }
            }
            for (content, model) in [&before, &(content.clone(), model.clone())] {
                let mut buf = vec![0xee; 40_000];
                let count = content.read_at(&mut buf, 0);
                assert!(buf[..count] == model[..], "step {step}");
                assert_eq!(content.len(), model.len() as u64);
            }
            let at = rng.below(30_000);
            let mut buf = [0xee; 5_000];
            let count = content.read_at(&mut buf, at);
            let rest = &model[(at as usize).min(model.len())..];
            assert!(buf[..count] == rest[..rest.len().min(5_000)], "step {step}");
        }
    }

    #[test]
    fn only_written_pages_take_space() {
        let mut content = Content::default();
        content.set_len(1 << 40);
        assert_eq!(content.allocated_bytes(), 0);
        content.write_at(4_000, &[1; 200]);
        assert_eq!(content.allocated_bytes(), 2 * 4_096);
        assert_eq!(content.fitting(0, 8_192, 0), 8_192);
        assert_eq!(content.fitting(4_100, 5_000, 0), 4_092);
        assert_eq!(content.fitting(4_100, 5_000, 4_096), 5_000);
        content.set_len(4_096);
        assert_eq!(content.allocated_bytes(), 4_096);
    }
}
