//! The past of a filesystem: what was done, and the state after any of it.

use super::journal::JournalEntry;
use super::state::{Effect, State};

/// A state is kept every so many effects; others are rebuilt from the one before.
const CHECKPOINT_EFFECTS: usize = 64;

#[derive(Debug)]
pub(super) struct History {
    /// States, each with the number of effects before it.
    checkpoints: Vec<(usize, State)>,
    /// Effects, each with the operation that had it.
    effects: Vec<(u64, Effect)>,
    first_seq: u64,
    pub journal: Vec<JournalEntry>,
}

impl History {
    /// The history of what comes after `state`, the result of operation `seq`.
    pub fn new(seq: u64, state: &State) -> History {
        History {
            checkpoints: vec![(0, state.clone())],
            effects: Vec::new(),
            first_seq: seq,
            journal: Vec::new(),
        }
    }

    /// Takes down an effect that was applied and gave `state`.
    pub fn push(&mut self, seq: u64, effect: Effect, state: &State) {
        self.effects.push((seq, effect));
        if self.effects.len().is_multiple_of(CHECKPOINT_EFFECTS) {
            self.checkpoints.push((self.effects.len(), state.clone()));
        }
    }

    /// The state right after operation `seq`, if it is not from before the record.
    pub fn state_after(&self, seq: u64) -> Option<State> {
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
