//! Clients that append to lists. Each transaction reads the lists of a group and then atomically
//! appends a value to some of these lists if no list of the group has changed. A list shows the
//! order of all of its appends, so the next read reveals an append that was lost, applied twice or
//! reordered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use minikv_raft::client::{Client, ClientError};
use minikv_raft::command::{Condition, Op as Change};
use minikv_raft::service::Read;
use stateright::semantics::SequentialSpec;

use crate::history::History;
use crate::processes::client_of;
use crate::rng::Rng;

/// Number of clients that append to lists.
pub const APPENDERS: usize = 3;
const LISTS: usize = 3;
/// Number of appends to a group before the clients move on to the next group. The limit keeps the
/// lists short.
const APPENDS: u64 = 30;

/// The values in the lists of a group, in the order in which they were appended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lists([Vec<u64>; LISTS]);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    /// Appends `value` to the lists whose numbers are in `at`, if all lists are still the same as
    /// in `seen`.
    Append {
        seen: Lists,
        at: Vec<usize>,
        value: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ret {
    Shown(Lists),
    Appended(bool),
}

impl SequentialSpec for Lists {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match op {
            Op::Read => Ret::Shown(self.clone()),
            Op::Append { seen, at, value } => {
                let holds = self == seen;
                if holds {
                    *self = seen.appended(at, *value);
                }
                Ret::Appended(holds)
            }
        }
    }
}

impl Lists {
    fn appended(&self, at: &[usize], value: u64) -> Lists {
        let mut lists = self.clone();
        at.iter().for_each(|list| lists.0[*list].push(value));
        lists
    }

    fn text(&self, list: usize) -> Option<Bytes> {
        let values: Vec<String> = self.0[list].iter().map(u64::to_string).collect();
        (!values.is_empty()).then(|| values.join(" ").into())
    }
}

fn name(group: usize, list: usize) -> String {
    format!("lists-{group:04}-{list}")
}

/// Reads all lists of a group in one request.
async fn read(kv: &Client, group: usize, read: Read) -> Result<Lists, ClientError> {
    let prefix = format!("lists-{group:04}-");
    let (entries, _) = kv.range(prefix.as_bytes(), None, LISTS + 1, read).await?;
    let mut lists = Lists::default();
    for (key, value) in entries {
        let list: usize = String::from_utf8(key[prefix.len()..].to_vec()).unwrap().parse().unwrap();
        let value = String::from_utf8(value.to_vec()).unwrap();
        lists.0[list] = value.split(' ').map(|value| value.parse().unwrap()).collect();
    }
    Ok(lists)
}

async fn append(
    kv: &Client,
    group: usize,
    seen: &Lists,
    at: &[usize],
    value: u64,
) -> Result<bool, ClientError> {
    let key = |list: usize| Bytes::from(name(group, list));
    let condition = |list| Condition { key: key(list), expected: seen.text(list) };
    let new = seen.appended(at, value);
    let change = |list: &usize| Change { key: key(*list), value: new.text(*list) };
    let (conditions, ops) = ((0..LISTS).map(condition), at.iter().map(change));
    Ok(kv.write(conditions.collect(), ops.collect()).await?.0)
}

impl History<Lists> {
    /// Reads all lists of a group, and records the result.
    async fn read(&self, kv: &Client, client: usize, group: usize, how: Read) -> Option<Lists> {
        let called = self.now();
        let seen = read(kv, group, how).await.ok()?;
        self.record(client, group, Op::Read, called, Some(Ret::Shown(seen.clone())));
        Some(seen)
    }

    async fn append(
        &self,
        kv: &Client,
        client: usize,
        group: usize,
        (seen, at, value): (Lists, Vec<usize>, u64),
    ) {
        let called = self.now();
        let appended = append(kv, group, &seen, &at, value).await.ok();
        self.record(
            client,
            group,
            Op::Append { seen, at, value },
            called,
            appended.map(Ret::Appended),
        );
    }
}

/// Reads and appends until `over` is set.
pub async fn appender(
    number: usize,
    seed: u64,
    addresses: Vec<String>,
    history: Arc<History<Lists>>,
    over: Arc<AtomicBool>,
) {
    let mut rng = Rng(seed.wrapping_mul(1000).wrapping_add(500 + number as u64));
    let kv = client_of(&addresses, Duration::from_secs(3));
    let mut step = 0;
    while !over.load(Ordering::Relaxed) {
        // All clients take steps at about the same rate, so they work on about the same group.
        step += 1;
        let group = (step / APPENDS) as usize;
        let how = if rng.next(2) == 0 { Read::Linearizable } else { Read::Lease };
        if let Some(seen) = history.read(&kv, number, group, how).await {
            let at: Vec<usize> = (0..LISTS).filter(|_| rng.next(2) == 0).collect();
            let value = (number as u64 + 1) * 1_000_000 + step;
            history.append(&kv, number, group, (seen, at, value)).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.next(60))).await;
    }
}

/// Asserts that the history is linearizable, and returns the number of operations in it.
pub fn check(history: &History<Lists>, seed: u64) -> usize {
    let refused = history.refused();
    assert!(refused.is_empty(), "seed {seed}: not linearizable: groups of lists {refused:?}");
    let events = history.events.lock().unwrap();
    let appended = events.iter().filter(|event| {
        matches!((&event.op, &event.returned), (Op::Append { .. }, Some((_, Ret::Appended(true)))))
    });
    assert!(appended.count() > 20, "seed {seed}: hardly anything was appended");
    events.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::event;
    use crate::history::{Event, is_linearizable};

    fn append(client: usize, seen: &Lists, called: u64, returned: Option<u64>) -> Event<Lists> {
        let op = Op::Append { seen: seen.clone(), at: vec![0, 1], value: client as u64 };
        event(client, op, called, returned.map(|time| (time, Ret::Appended(true))))
    }

    fn shown(lists: [&[u64]; LISTS], called: u64) -> Event<Lists> {
        let lists = Lists(lists.map(<[u64]>::to_vec));
        event(9, Op::Read, called, Some((called + 1, Ret::Shown(lists))))
    }

    #[test]
    fn a_transaction_that_is_seen_in_part_lost_or_applied_twice_is_refused() {
        let first = append(1, &Lists::default(), 0, Some(1));
        let is_accepted = |read| is_linearizable(&[first.clone(), read], 0);
        assert!(is_accepted(shown([&[1], &[1], &[]], 2)));
        assert!(!is_accepted(shown([&[1], &[], &[]], 2)), "in part");
        assert!(!is_accepted(shown([&[], &[], &[]], 2)), "lost");
        assert!(!is_accepted(shown([&[1, 1], &[1, 1], &[]], 2)), "twice");
    }

    #[test]
    fn of_two_transactions_that_saw_the_same_only_one_may_succeed() {
        let none = Lists::default();
        assert!(!is_linearizable(&[append(1, &none, 0, Some(5)), append(2, &none, 0, Some(5))], 0));
        let one_failed = append(2, &none, 0, None);
        assert!(is_linearizable(&[append(1, &none, 0, Some(5)), one_failed], 0));
    }
}
