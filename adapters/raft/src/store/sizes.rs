//! The sizes of the entries in the log, in steps of about a mebibyte.

use std::collections::VecDeque;

/// Size of a step, in bytes. A smaller step takes more memory, and says more exactly how much a
/// purge leaves.
const STEP_BYTES: u64 = 1 << 20;

/// The sizes of consecutive entries.
#[derive(Default)]
pub(crate) struct Sizes {
    /// For each step: the index of its last entry, and the size of its entries.
    steps: VecDeque<(u64, u64)>,
}

impl Sizes {
    /// Adds the next entry.
    pub(crate) fn push(&mut self, index: u64, bytes: u64) {
        match self.steps.back_mut() {
            Some((last, step)) if *step < STEP_BYTES => (*last, *step) = (index, *step + bytes),
            _ => self.steps.push_back((index, bytes)),
        }
    }

    /// Removes the entries from `index` on.
    pub(crate) fn truncate(&mut self, index: u64) {
        // The entries of the last step before `index` are still counted: too much is better than
        // too little.
        while self.steps.len() > 1 && self.steps[self.steps.len() - 2].0 >= index {
            self.steps.pop_back();
        }
    }

    /// Removes the entries up to `index`.
    pub(crate) fn purge(&mut self, index: u64) {
        while self.steps.front().is_some_and(|(last, _)| *last <= index) {
            self.steps.pop_front();
        }
    }

    /// Returns the size of the entries after `index`, or of all entries.
    pub(crate) fn bytes_after(&self, index: Option<u64>) -> u64 {
        let after = |(last, _): &&(u64, u64)| index.is_none_or(|index| *last > index);
        self.steps.iter().rev().take_while(after).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the index of the last entry that must go so that at most `bytes` bytes are left;
    /// `None` if no entry must go.
    pub(crate) fn end_before(&self, bytes: u64) -> Option<u64> {
        let mut kept = 0;
        let too_old = |(_, step): &&(u64, u64)| {
            kept += step;
            kept > bytes
        };
        self.steps.iter().rev().find(too_old).map(|(last, _)| *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_by_bytes_keeps_the_newest_entries() {
        let mut sizes = Sizes::default();
        (0..100).for_each(|index| sizes.push(index, STEP_BYTES));
        assert_eq!(sizes.bytes_after(None), 100 * STEP_BYTES);
        assert_eq!(sizes.bytes_after(Some(89)), 10 * STEP_BYTES);
        assert_eq!(sizes.end_before(100 * STEP_BYTES), None);
        assert_eq!(sizes.end_before(10 * STEP_BYTES), Some(89));
        sizes.purge(89);
        assert_eq!(sizes.bytes_after(None), 10 * STEP_BYTES);
        sizes.truncate(95);
        assert!(sizes.bytes_after(None) <= 6 * STEP_BYTES);
        assert!(sizes.bytes_after(None) >= 5 * STEP_BYTES);
    }

    #[test]
    fn small_entries_share_a_step() {
        let mut sizes = Sizes::default();
        (0..1 << 16).for_each(|index| sizes.push(index, 100));
        assert!(sizes.steps.len() < 10, "{}", sizes.steps.len());
        assert_eq!(sizes.bytes_after(None), 100 << 16);
    }
}
