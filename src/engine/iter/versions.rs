//! How a cursor gets past a key with very many versions: by a seek, and not step by step.

use super::Cursor;
use crate::base::Result;
use crate::format::key::{
    KIND_FOR_SEEK, KeyKind, MAX_SEQ_NO, SeqNo, append_internal_key, user_key,
};

/// A cursor that looks at so many versions of one key goes on by a seek.
const MAX_STEPS_IN_KEY: u32 = 32;

impl Cursor {
    /// Counts a step of the merge, which is at an entry. Whether it has come by many versions of
    /// the entry's key, which is the seek key then.
    #[inline]
    pub(super) fn is_among_versions(&mut self, steps: &mut u32) -> bool {
        *steps += 1;
        steps.is_multiple_of(MAX_STEPS_IN_KEY) && self.is_same_as_before()
    }

    #[cold]
    fn is_same_as_before(&mut self) -> bool {
        let key = user_key(self.merge.key());
        let same = self.seek_key == key;
        self.seek_key.clear();
        self.seek_key.extend_from_slice(key);
        same
    }

    /// Makes an internal key of the seek key, which is a user key.
    pub(super) fn set_seek_key(&mut self, seq: SeqNo, kind: KeyKind) {
        let key = std::mem::take(&mut self.seek_key);
        append_internal_key(&mut self.seek_key, &key, seq, kind);
    }

    /// Backward, among the versions of the seek key, a user key: saves the newest one that the
    /// reader sees, if there is one, and moves the merge before all of them.
    pub(super) fn pass_versions(&mut self, kind: &mut KeyKind) -> Result<bool> {
        let key = self.seek_key.clone();
        self.set_seek_key(self.seq, KIND_FOR_SEEK);
        if self.merge.seek(&self.seek_key)? {
            let entry = self.merge.parsed_key()?;
            if self.state.order.user().compare(entry.user_key, &key).is_eq() {
                *kind = entry.kind;
                self.saved_key.clear();
                self.saved_key.extend_from_slice(entry.user_key);
                if entry.kind == KeyKind::Value {
                    self.saved_value.set(&self.merge);
                }
            }
        }
        self.seek_key.clear();
        append_internal_key(&mut self.seek_key, &key, MAX_SEQ_NO, KIND_FOR_SEEK);
        self.merge_before_seek_key(false)
    }
}
