//! Skipping keys with very many versions, by a seek instead of one step per version.

use super::VisibleCursor;
use crate::base::Result;
use crate::engine::read::own::OWN_SEQ;
use crate::format::key::{
    KIND_FOR_SEEK, KeyKind, MAX_SEQ_NO, SeqNo, append_internal_key, user_key,
};

/// Number of versions of one key after which a cursor seeks past the remaining versions. A seek
/// costs as much as a few dozen steps. A lower number makes short runs of versions slower, and a
/// higher number makes long runs slower.
const MAX_STEPS_IN_KEY: u32 = 32;

impl VisibleCursor {
    /// Counts a step of the merge, which must be at an entry. Returns whether the merge has passed
    /// many versions of the entry's key. If the result is true, `seek_key` is the entry's user key.
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

    /// Turns the seek key, a user key, into an internal key.
    pub(super) fn set_seek_key(&mut self, seq: SeqNo, kind: KeyKind) {
        let key = std::mem::take(&mut self.seek_key);
        append_internal_key(&mut self.seek_key, &key, seq, kind);
    }

    /// In a backward walk, moves the merge before all versions of the seek key, which must be a
    /// user key. Returns whether the merge is then at an entry.
    ///
    /// `visible` tells whether the reader sees the version that the merge is at. If so, the newest
    /// visible version is saved first. If not, no visible version in the database is left to save,
    /// for one of two reasons: the walk has passed all visible versions, or it began before them,
    /// among newer versions that other threads have added. But the transaction's own write comes
    /// after all of these, and is saved first.
    pub(super) fn pass_versions(&mut self, visible: bool, kind: &mut KeyKind) -> Result<bool> {
        let key = self.seek_key.clone();
        if visible || self.point.own.is_some() {
            self.save_visible_version(&key, visible, kind)?;
        }
        self.seek_key.clear();
        append_internal_key(&mut self.seek_key, &key, MAX_SEQ_NO, KIND_FOR_SEEK);
        self.merge.seek_before(&self.seek_key, false)
    }

    /// Saves the newest version of `key` that the reader sees; if `stored` is not set, only a write
    /// of its own. `key` must be the seek key.
    fn save_visible_version(&mut self, key: &[u8], stored: bool, kind: &mut KeyKind) -> Result<()> {
        self.set_seek_key(self.newest_seq(), KIND_FOR_SEEK);
        let mut valid = self.merge.seek(&self.seek_key)?;
        if valid && !stored && self.merge.parsed_key()?.seq != OWN_SEQ {
            return Ok(());
        }
        if valid && !self.sees(self.merge.parsed_key()?.seq) {
            // The reader has not written the key, and the newest version of the key is later.
            self.seek_key.clear();
            append_internal_key(&mut self.seek_key, key, self.point.seq, KIND_FOR_SEEK);
            valid = self.merge.seek(&self.seek_key)?;
        }
        if valid {
            let entry = self.merge.parsed_key()?;
            if self.point.state().order.user().compare(entry.user_key, key).is_eq() {
                *kind = entry.kind;
                self.saved_key.clear();
                self.saved_key.extend_from_slice(entry.user_key);
                if entry.kind == KeyKind::Value {
                    self.saved_value.set(&self.merge);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::engine::Engine;
    use crate::engine::options::{Options, WriteOptions};
    use crate::engine::read::reader::Reader;
    use crate::engine::write::queue::Write;
    use crate::format::key::internal_key;
    use crate::fs::MemFs;

    /// Checks a step backward of a cursor at an entry, after newer versions of the entry's key have
    /// been added.
    #[test]
    fn a_walk_backward_that_begins_among_newer_versions_does_not_turn_to_the_older_ones() {
        let options = Options::default().create_if_missing(true).inline_background(Some(1));
        let fs = Arc::new(MemFs::new());
        let engine = Engine::open(Path::new("/db"), options.fs(fs)).unwrap();
        let put = |key: &str| {
            let write = Write::Put(key.as_bytes(), b"");
            engine.write(&WriteOptions::default(), write).unwrap();
        };
        put("a");
        put("hot");
        let reader = Reader::now(&engine.reads);
        let new_cursor = || VisibleCursor::new(reader.point().into_owned(), None).unwrap();
        let mut cursor = new_cursor();
        let seq = cursor.point.seq;
        (0..10 * MAX_STEPS_IN_KEY).for_each(|_| put("hot"));
        // Creating another cursor sorts the new versions into the memtable's sorted order.
        new_cursor();
        assert!(cursor.merge.seek(&internal_key(b"hot", seq + 1, KIND_FOR_SEEK)).unwrap());
        assert!(cursor.find_backward(true).unwrap());
        assert_eq!(cursor.key(), b"a");
    }
}
