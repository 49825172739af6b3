//! A predictor of a thread's block-filter answers.
//!
//! A lookup may miss the CPU's caches twice: for the filter, and then for the block. If the last
//! answers were "may match", the cached block is prefetched before the filter is queried, so that
//! the two misses overlap; otherwise the prefetch would be wasted. Only speed depends on the
//! prediction.

/// The recent answers that a thread got, from all tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    matches_in_a_row: u8,
}

impl Answers {
    const MANY: u8 = 4;

    /// Returns whether the next answer is likely to be a match.
    #[inline]
    pub(super) fn promise_a_match(self) -> bool {
        self.matches_in_a_row == Answers::MANY
    }

    /// Records an answer.
    #[inline]
    pub(super) fn add(&mut self, may_match: bool) {
        let more = (self.matches_in_a_row + 1).min(Answers::MANY);
        self.matches_in_a_row = if may_match { more } else { 0 };
    }
}
