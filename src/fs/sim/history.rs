//! The history of a filesystem: its journal, and the state after each operation.

use super::journal::JournalEntry;
use super::state::{DiskState, Effect};

/// Number of effects between saved states. Each state in between is rebuilt from the last saved
/// state before it: a larger number takes less memory and more time.
const CHECKPOINT_EFFECTS: usize = 64;

#[derive(Debug)]
pub(super) struct History {
    /// Saved states, each with the number of effects before it.
    checkpoints: Vec<(usize, DiskState)>,
    /// Effects, each with the sequence number of the operation that it belongs to.
    effects: Vec<(u64, Effect)>,
    first_seq: u64,
    pub journal: Vec<JournalEntry>,
}

impl History {
    /// Creates a history that begins with `state`, the result of operation `seq`.
    pub(super) fn new(seq: u64, state: &DiskState) -> History {
        History {
            checkpoints: vec![(0, state.clone())],
            effects: Vec::new(),
            first_seq: seq,
            journal: Vec::new(),
        }
    }

    /// Records an effect. `state` is the state after the effect.
    pub(super) fn push(&mut self, seq: u64, effect: Effect, state: &DiskState) {
        self.effects.push((seq, effect));
        if self.effects.len().is_multiple_of(CHECKPOINT_EFFECTS) {
            self.checkpoints.push((self.effects.len(), state.clone()));
        }
    }

    /// Returns the state right after operation `seq`, or `None` if the operation was before the
    /// history began.
    pub(super) fn state_after(&self, seq: u64) -> Option<DiskState> {
        if seq < self.first_seq {
            return None;
        }
        let count = self.effects.partition_point(|(at, _)| *at <= seq);
        let nearest = self.checkpoints.partition_point(|(at, _)| *at <= count) - 1;
        let (done, state) = &self.checkpoints[nearest];
        let mut state = state.clone();
        for (seq, effect) in &self.effects[*done..count] {
            state.apply(*seq, effect);
        }
        Some(state)
    }
}
