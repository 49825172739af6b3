//! What block filters lately answered.
//!
//! A lookup waits for memory twice: for the filter, and then for the block. Where the answers of
//! late were "may match", the cached block is prefetched while the filter is asked, and both are
//! waited for at once; after other answers it would be fetched in vain. Only time depends on it.

/// The answers a thread got, of whatever table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    matches_in_a_row: u8,
}

impl Answers {
    const MANY: u8 = 4;

    /// Whether the next answer is likely to be a match.
    #[inline]
    pub(super) fn promise_a_match(self) -> bool {
        self.matches_in_a_row == Answers::MANY
    }

    /// Takes an answer.
    #[inline]
    pub(super) fn add(&mut self, may_match: bool) {
        let more = (self.matches_in_a_row + 1).min(Answers::MANY);
        self.matches_in_a_row = if may_match { more } else { 0 };
    }
}
