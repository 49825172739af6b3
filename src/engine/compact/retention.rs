//! The rule that decides which versions of a key a merge keeps.
//!
//! A reader at sequence number `s` sees the newest version whose sequence number is not above `s`.
//! So the older of two successive versions of a key is shadowed, and left out, if no reader's
//! sequence number lies between the sequence numbers of the two versions.

use crate::base::{Error, Result};
use crate::format::key::{ParsedKey, SeqNo, UserComparator};

/// Decides which versions of a key a reader may still see. Entries must be passed in internal key
/// order.
#[derive(Debug)]
pub(crate) struct Retention {
    /// Sequence numbers of the readers, in ascending order.
    read_seqs: Vec<SeqNo>,
    order: UserComparator,
    /// User key of the previous entry.
    key: Vec<u8>,
    /// Sequence number of the previous entry; `None` before the first entry.
    newer: Option<SeqNo>,
}

impl Retention {
    /// Creates the rule that keeps every version that is visible at one of the sequence numbers
    /// `read_seqs`, which must ascend.
    pub(crate) fn new(read_seqs: Vec<SeqNo>, order: UserComparator) -> Retention {
        debug_assert!(
            read_seqs.is_sorted_by(|a, b| a < b),
            "sequence numbers of readers ascend: {read_seqs:?}"
        );
        Retention { read_seqs, order, key: Vec::new(), newer: None }
    }

    /// Returns whether no reader sees this entry, because of a newer version of its key.
    ///
    /// # Errors
    /// Corruption if the entries do not ascend. An entry that occurs in two tables is not an error:
    /// its second occurrence is shadowed.
    pub(crate) fn is_shadowed(&mut self, entry: &ParsedKey<'_>) -> Result<bool> {
        if let Some(newer) = self.newer.replace(entry.seq) {
            let step = self.order.compare(entry.user_key, &self.key);
            if step.then(newer.cmp(&entry.seq)).is_lt() {
                return Err(Error::corruption("the keys of a table do not ascend"));
            }
            if step.is_eq() {
                let at = self.read_seqs.partition_point(|&reader| reader < entry.seq);
                return Ok(self.read_seqs.get(at).is_none_or(|&reader| reader >= newer));
            }
        }
        self.key.clear();
        self.key.extend_from_slice(entry.user_key);
        Ok(false)
    }

    /// Returns whether every reader sees the entry with the sequence number `seq`, or a newer
    /// version of its key.
    pub(super) fn all_see(&self, seq: SeqNo) -> bool {
        self.read_seqs.first().is_none_or(|&oldest| seq <= oldest)
    }
}
