//! A predictor of a thread's block-filter answers.
//!
//! A lookup may miss the CPU's caches twice: at the filter, and then at the block. If a thread's
//! last answers were "may match", the cached block is prefetched before the filter is queried, so
//! that the two misses overlap. Otherwise the block is probably not needed, and prefetching it
//! would be wasted. The prediction affects only speed, so each thread has a single predictor for
//! all tables of all databases.

use std::cell::Cell;

/// A thread's recent block-filter answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    matches_in_a_row: u8,
}

thread_local! {
    static ANSWERS: Cell<Answers> = const { Cell::new(Answers { matches_in_a_row: 0 }) };
}

impl Answers {
    /// Number of consecutive matches after which the next answer is expected to be a match. With a
    /// higher number, fewer prefetches are wasted and fewer misses overlap.
    const MANY: u8 = 4;

    /// Calls `f` with the thread's answers. Returns the result of `f`.
    #[inline]
    fn with<R>(f: impl FnOnce(&mut Answers) -> R) -> R {
        ANSWERS.with(|kept| {
            let mut answers = kept.get();
            let result = f(&mut answers);
            kept.set(answers);
            result
        })
    }

    /// Returns whether the thread's next answer is likely to be a match.
    #[inline]
    pub(super) fn promise_a_match() -> bool {
        Answers::with(|answers| answers.matches_in_a_row == Answers::MANY)
    }

    /// Records an answer of a block filter.
    #[inline]
    pub(super) fn add(may_match: bool) {
        Answers::with(|answers| {
            debug_assert!(answers.matches_in_a_row <= Answers::MANY);
            let more = (answers.matches_in_a_row + 1).min(Answers::MANY);
            answers.matches_in_a_row = if may_match { more } else { 0 };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_expected_after_many_in_a_row() {
        for round in 0..3 {
            assert!(!Answers::promise_a_match(), "{round}");
            for _ in 0..Answers::MANY {
                Answers::add(true);
            }
            assert!(Answers::promise_a_match());
            Answers::add(true);
            assert!(Answers::promise_a_match());
            Answers::add(false);
        }
    }
}
