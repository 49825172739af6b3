//! Transcript tests of the write queue: who joins a group, and how often a leader waits in vain.

use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};
use crate::base::transcript::{self, Command, number};
use crate::engine::write::queue::{Group, Signal, Waiter, WriteQueue};
use crate::format::batch::WriteBatch;

/// Returns a waiting write. `text` is the size of the write in bytes, followed by `s` if it is
/// synced.
fn waiter(text: &str) -> Arc<Waiter> {
    let size = text.strip_suffix('s');
    Arc::new(Waiter {
        sync: size.is_some(),
        bytes: number(size.unwrap_or(text)) as usize,
        batch: Mutex::new(WriteBatch::new()),
        check: None,
        signal: Mutex::new(Signal::Wait),
        signalled: Condvar::new(),
    })
}

/// Returns the sizes of waiting writes as text.
fn texts<'a>(waiters: impl IntoIterator<Item = &'a Arc<Waiter>>) -> String {
    let size = |bytes: usize| match bytes {
        0..1024 => bytes.to_string(),
        _ => format!("{}K", bytes >> 10),
    };
    let text = |waiter: &Arc<Waiter>| match waiter.sync {
        true => size(waiter.bytes) + "s",
        false => size(waiter.bytes),
    };
    let texts: Vec<String> = waiters.into_iter().map(text).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(" ") }
}

/// Makes the leaders of `groups` groups call `gather`, one after the other, while no writer comes.
/// Most of them do not wait, because of the back-off. Returns the numbers of groups between two
/// leaders that waited.
fn gather(queue: &WriteQueue, groups: u64) -> String {
    let mut between = Vec::new();
    let mut skipped = 0;
    for _ in 0..groups {
        queue.line.lock().led = true;
        let before = queue.line.lock().ungathered;
        // If a leader waited although it should not, the test would hang for half a minute.
        queue.gather(Duration::from_secs(if before == 0 { 0 } else { 60 }));
        if queue.line.lock().ungathered < before {
            skipped += 1;
        } else {
            between.push(std::mem::take(&mut skipped).to_string());
        }
    }
    between[1..].join(" ")
}

#[test]
fn writes_form_groups() {
    let queue = WriteQueue::default();
    let mut group = Vec::new();
    transcript::run("queue", |command: &Command<'_>| match command.name {
        "waiting" => {
            queue.line.lock().waiting = command.args.iter().map(|text| waiter(text)).collect();
            String::new()
        }
        "group" => {
            queue.line.lock().led = true;
            group.clear();
            let leader = waiter(command.args[0]);
            queue.group(leader.bytes, leader.sync, &mut group);
            let left = texts(&queue.line.lock().waiting);
            format!("joined by: {}\nleft waiting: {left}", texts(&group))
        }
        "leave" => {
            let group = Group { members: group.clone(), refused: Vec::new() };
            queue.leave(group, &Ok(()));
            let line = queue.line.lock();
            let next = if line.led { "the first of those left leads next" } else { "no leader" };
            format!("{next}, expecting {} writers", line.expected)
        }
        "gather" => gather(&queue, number(command.args[0])),
        _ => command.unknown(),
    });
}
