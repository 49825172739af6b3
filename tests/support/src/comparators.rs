//! Comparators for tests.

use std::cmp::Ordering;
use std::sync::Arc;

use minikv::{BytewiseComparator, Comparator};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Bytewise,
    Reverse,
    /// Compares keys without regard to case, and then by their bytes, so that no two different keys
    /// are equal.
    Alphabetical,
    /// Compares keys without regard to case: keys that differ only in case are the same key.
    /// Filters would tell such keys apart, so filters must not be used with this order.
    CaseBlind,
}

impl Order {
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        let folded = |key: &[u8]| key.to_ascii_lowercase();
        match self {
            Order::Bytewise => a.cmp(b),
            Order::Reverse => b.cmp(a),
            Order::Alphabetical => folded(a).cmp(&folded(b)).then_with(|| a.cmp(b)),
            Order::CaseBlind => folded(a).cmp(&folded(b)),
        }
    }

    pub fn comparator(self) -> Arc<dyn Comparator> {
        match self {
            Order::Bytewise => Arc::new(BytewiseComparator),
            _ => Arc::new(Custom(self)),
        }
    }
}

#[derive(Debug)]
struct Custom(Order);

impl Comparator for Custom {
    fn name(&self) -> &str {
        match self.0 {
            Order::Bytewise => "test.Bytewise",
            Order::Reverse => "test.Reverse",
            Order::Alphabetical => "test.Alphabetical",
            Order::CaseBlind => "test.CaseBlind",
        }
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare(a, b)
    }
}
