//! The order of keys.

use std::cmp::Ordering;
use std::sync::Arc;

use minikv::{BytewiseComparator, Comparator};

/// The order of a database's keys. Byte order needs no virtual call.
#[derive(Clone, Debug)]
pub struct KeyOrder {
    /// `None` for byte order.
    custom: Option<Arc<dyn Comparator>>,
}

impl KeyOrder {
    pub fn new(comparator: Arc<dyn Comparator>) -> KeyOrder {
        let is_bytewise = comparator.name() == BytewiseComparator.name();
        KeyOrder { custom: (!is_bytewise).then_some(comparator) }
    }

    /// Returns byte order.
    pub fn bytewise() -> KeyOrder {
        KeyOrder { custom: None }
    }

    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.custom {
            None => a.cmp(b),
            Some(custom) => custom.compare(a, b),
        }
    }
}
