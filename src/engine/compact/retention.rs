//! The rule that decides which versions of a key a merge keeps.

use crate::base::{Error, Result};
use crate::format::key::{ParsedKey, SeqNo, UserComparator};

/// Which versions of a key someone may still see. Entries must come in internal key order.
#[derive(Debug)]
pub struct Retention {
    /// Sequences at which the database is read, ascending.
    held: Vec<SeqNo>,
    order: UserComparator,
    key: Vec<u8>,
    /// The sequence of the key's version that came before, if one did.
    newer: Option<SeqNo>,
}

impl Retention {
    /// Keeps what readers at one of the `held` sequences, ascending, see.
    pub fn new(held: Vec<SeqNo>, order: UserComparator) -> Retention {
        Retention { held, order, key: Vec::new(), newer: None }
    }

    /// Whether every reader sees a newer version of the key instead of this one.
    ///
    /// # Errors
    /// Corruption, if the entry comes before the one before it. The same entry twice, from two
    /// tables, is no harm.
    pub fn is_shadowed(&mut self, entry: &ParsedKey<'_>) -> Result<bool> {
        if let Some(newer) = self.newer.replace(entry.seq) {
            let step = self.order.compare(entry.user_key, &self.key);
            if step.then(newer.cmp(&entry.seq)).is_lt() {
                return Err(Error::corruption("the keys of a table do not ascend"));
            }
            if step.is_eq() {
                let at = self.held.partition_point(|&held| held < entry.seq);
                return Ok(self.held.get(at).is_none_or(|&held| held >= newer));
            }
        }
        self.key.clear();
        self.key.extend_from_slice(entry.user_key);
        Ok(false)
    }

    /// Whether every reader sees this entry or a newer one.
    pub(super) fn all_see(&self, seq: SeqNo) -> bool {
        self.held.first().is_none_or(|&oldest| seq <= oldest)
    }
}
