//! Keys that the programs which use a database would not understand.

use std::sync::Arc;

use minikv::{Comparator, IndexedDbComparator};

use crate::codec::Format;
use crate::output;

/// Returns an error text if programs that use databases of the order `order` would not understand
/// `key`.
pub fn check_key(order: &dyn Comparator, key: &[u8]) -> Result<(), String> {
    if order.name() != IndexedDbComparator.name() || IndexedDbComparator::describe(key).is_some() {
        return Ok(());
    }
    let key = Format::default().show(key);
    Err(format!("\"{key}\" is no key of IndexedDB, whose programs may fail on it"))
}

/// Warns about the first key that programs would not understand. Unlike `put`, the commands that
/// read entries write such a key: a copy of a database must have everything that the database has.
pub struct KeyCheck {
    order: Arc<dyn Comparator>,
    has_warned: bool,
}

impl KeyCheck {
    /// Creates a check for keys of a database of the order `order`.
    pub fn new(order: Arc<dyn Comparator>) -> KeyCheck {
        KeyCheck { order, has_warned: false }
    }

    /// Checks a key, which was read at the place that `place` returns.
    pub fn check(&mut self, key: &[u8], place: impl FnOnce() -> String) {
        if self.has_warned {
            return;
        }
        if let Err(what) = check_key(&*self.order, key) {
            output::say(format!("minikv: {}: {what}; it is written all the same", place()));
            self.has_warned = true;
        }
    }
}
