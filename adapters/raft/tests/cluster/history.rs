//! Histories: the operations and results of clients. Checks whether a single copy of the data could
//! have given the same results.

use std::fmt::Debug;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use minikv_raft::client::{Client, ClientError};
use minikv_raft::service::Read;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// A register with compare-and-set. A value of 0 means that the register is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Register(u64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write(u64),
    CompareAndSet(u64, u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    Value(u64),
    Done,
    Compared(bool),
}

impl SequentialSpec for Register {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match op {
            Op::Read => Ret::Value(self.0),
            Op::Write(value) => {
                self.0 = *value;
                Ret::Done
            }
            Op::CompareAndSet(expected, value) => {
                let holds = self.0 == *expected;
                if holds {
                    self.0 = *value;
                }
                Ret::Compared(holds)
            }
        }
    }
}

/// An operation of the specification `S`, from its call to its return. The return is missing if the
/// outcome is unknown.
#[derive(Clone, Debug)]
pub struct Event<S: SequentialSpec> {
    /// The object that the operation accesses. Objects are independent of each other.
    pub key: usize,
    pub client: usize,
    pub op: S::Op,
    pub called: Duration,
    pub returned: Option<(Duration, S::Ret)>,
}

/// Size of the checker's stack. The checker calls itself once for each operation of an object,
/// which takes a few KiB, and a fast cluster performs thousands.
const CHECKER_STACK_BYTES: usize = 1 << 30;

/// The events of all clients.
pub struct History<S: SequentialSpec> {
    start: Instant,
    pub events: Mutex<Vec<Event<S>>>,
}

impl<S> History<S>
where
    S: SequentialSpec + Default + Clone + Send,
    S::Op: Clone + Debug + Send,
    S::Ret: Clone + Debug + PartialEq + Send,
{
    pub fn new() -> History<S> {
        History { start: Instant::now(), events: Mutex::new(Vec::new()) }
    }

    /// Returns the time since the start of the history.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records an operation that was called at the time `called` and has just returned or failed.
    pub fn record(
        &self,
        client: usize,
        key: usize,
        op: S::Op,
        called: Duration,
        ret: Option<S::Ret>,
    ) {
        let returned = ret.map(|ret| (self.now(), ret));
        self.events.lock().unwrap().push(Event { key, client, op, called, returned });
    }

    /// Returns the objects whose histories are not linearizable.
    pub fn refused(&self) -> Vec<usize> {
        let events = self.events.lock().unwrap();
        let keys = events.iter().map(|event| event.key + 1).max().unwrap_or(0);
        (0..keys).filter(|key| !is_linearizable(&events, *key)).collect()
    }
}

impl History<Register> {
    /// Performs an operation and records it. Returns an error if the outcome is unknown.
    pub async fn run(
        &self,
        kv: &Client,
        client: usize,
        key: usize,
        op: Op,
        read: Read,
    ) -> Result<(), ClientError> {
        let name = format!("register-{key}").into_bytes();
        let text = |value: u64| (value != 0).then(|| value.to_string().into());
        let called = self.now();
        let result = match op {
            Op::Read => kv.get(&name, read).await.map(|value| {
                let value = value.map(|value| String::from_utf8(value.to_vec()).unwrap());
                Ret::Value(value.map_or(0, |value| value.parse().unwrap()))
            }),
            Op::Write(value) => kv.put(name, value.to_string()).await.map(|_| Ret::Done),
            Op::CompareAndSet(expected, value) => {
                kv.compare_and_set(name, text(expected), text(value)).await.map(Ret::Compared)
            }
        };
        let error = result.as_ref().err().cloned();
        // A read that got no answer gives the checker no information.
        if !(op == Op::Read && error.is_some()) {
            self.record(client, key, op, called, result.ok());
        }
        error.map_or(Ok(()), Err)
    }
}

/// Returns whether the history of the object `key` is linearizable.
pub fn is_linearizable<S>(events: &[Event<S>], key: usize) -> bool
where
    S: SequentialSpec + Default + Clone + Send,
    S::Op: Clone + Debug + Send,
    S::Ret: Clone + Debug + PartialEq + Send,
{
    let events: Vec<&Event<S>> = events.iter().filter(|event| event.key == key).collect();
    // The calls and returns, ordered by time. At equal times, calls come before returns.
    let mut moments: Vec<(Duration, bool, usize)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        moments.push((event.called, false, number));
        if let Some((returned, _)) = event.returned {
            moments.push((returned, true, number));
        }
    }
    moments.sort();
    let mut tester = LinearizabilityTester::new(S::default());
    for (_, is_return, number) in moments {
        let event = events[number];
        // The checker assumes that each thread waits for the answer to its operation. An operation
        // that was never answered therefore gets its own thread.
        let thread = match event.returned {
            Some(_) => event.client,
            None => 1_000_000 + number,
        };
        let recorded = match &event.returned {
            Some((_, ret)) if is_return => tester.on_return(thread, ret.clone()).map(|_| ()),
            _ => tester.on_invoke(thread, event.op.clone()).map(|_| ()),
        };
        recorded.unwrap();
    }
    thread::scope(|scope| {
        let checker = thread::Builder::new().stack_size(CHECKER_STACK_BYTES);
        checker.spawn_scoped(scope, move || tester.is_consistent()).unwrap().join().unwrap()
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns an event on the first object. Times are in milliseconds.
    pub fn event<S: SequentialSpec>(
        client: usize,
        op: S::Op,
        called: u64,
        returned: Option<(u64, S::Ret)>,
    ) -> Event<S> {
        let at = Duration::from_millis;
        let returned = returned.map(|(time, ret)| (at(time), ret));
        Event { key: 0, client, op, called: at(called), returned }
    }

    fn is_accepted(events: &[Event<Register>]) -> bool {
        is_linearizable(events, 0)
    }

    #[test]
    fn a_stale_read_is_refused() {
        let write = event(1, Op::Write(1), 0, Some((1, Ret::Done)));
        let read = |value| event(2, Op::Read, 2, Some((3, Ret::Value(value))));
        assert!(is_accepted(&[write.clone(), read(1)]));
        assert!(!is_accepted(&[write, read(0)]));
    }

    #[test]
    fn an_unknown_write_may_take_effect_later_but_only_once() {
        let unknown = event(1, Op::Write(1), 0, None);
        let read = |from, value| event(2, Op::Read, from, Some((from + 1, Ret::Value(value))));
        assert!(is_accepted(&[unknown.clone(), read(2, 0), read(4, 1)]));
        assert!(!is_accepted(&[unknown, read(2, 1), read(4, 0)]));
    }

    #[test]
    fn a_long_history_is_judged() {
        let write = |n: u64| event(1, Op::Write(n), 2 * n, Some((2 * n + 1, Ret::Done)));
        let mut events: Vec<_> = (1..=2_000).map(write).collect();
        assert!(is_accepted(&events));
        events.push(event(1, Op::Read, 20_000, Some((20_001, Ret::Value(1)))));
        assert!(!is_accepted(&events));
    }

    #[test]
    fn two_compare_and_sets_of_one_value_are_refused() {
        let set = |client, value| {
            event(client, Op::CompareAndSet(0, value), 0, Some((5, Ret::Compared(true))))
        };
        assert!(is_accepted(&[set(1, 1)]));
        assert!(!is_accepted(&[set(1, 1), set(2, 2)]));
    }
}
