//! States that a crash may leave. If the process was killed, all writes must survive. After a loss
//! of power, a prefix of the writes that includes every synced write must survive.

use crate::order::{Entry, Model};

/// A key with its new value, or `None` if the key is deleted.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// The writes that might not survive a loss of power.
#[derive(Debug)]
pub struct Journal {
    durable: Model,
    /// Writes after the state `durable`, oldest first. A loss of power keeps either all changes of
    /// a write or none.
    writes: Vec<Vec<Change>>,
}

impl Journal {
    pub fn new(durable: Model) -> Journal {
        Journal { durable, writes: Vec::new() }
    }

    pub fn write(&mut self, changes: Vec<Change>) {
        self.writes.push(changes);
    }

    /// Returns the state whose entries are `found`, if a loss of power may leave that state.
    pub fn survivor(&self, found: &[Entry]) -> Option<Model> {
        let mut model = self.durable.clone();
        let mut writes = self.writes.iter();
        loop {
            if model.len() == found.len() && model.all() == found {
                return Some(model);
            }
            for (key, value) in writes.next()? {
                model.set(key, value.as_deref());
            }
        }
    }
}

#[test]
fn only_prefixes_with_every_synced_write_survive() {
    let put = |key: &str| (key.as_bytes().to_vec(), Some(b"1".to_vec()));
    let entries = |keys: &[&str]| -> Vec<Entry> {
        keys.iter().map(|key| (key.as_bytes().into(), b"1"[..].into())).collect()
    };
    let mut durable = Model::new(crate::comparators::Order::Bytewise);
    durable.set(b"a", Some(b"1"));
    let mut journal = Journal::new(durable);
    journal.write(vec![put("b"), put("c")]);
    journal.write(vec![(b"a".to_vec(), None)]);
    for allowed in [&["a"][..], &["a", "b", "c"], &["b", "c"]] {
        let survivor = journal.survivor(&entries(allowed));
        assert_eq!(survivor.map(|model| model.len()), Some(allowed.len()), "{allowed:?}");
    }
    for refused in [&[][..], &["b"], &["a", "b"], &["a", "c"], &["a", "b", "c", "d"]] {
        assert!(journal.survivor(&entries(refused)).is_none(), "{refused:?}");
    }
}
