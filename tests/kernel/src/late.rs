//! Work that is done later, in the order of the times at which it is due.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

type Work = Box<dyn FnOnce() + Send>;

/// A thread that does work later. It ends when this is dropped, after it has done everything.
#[derive(Default)]
pub struct Late(Mutex<Option<Sender<(Instant, Work)>>>);

impl Late {
    /// Does `work` after `delay`: at once, in this thread, if `delay` is zero.
    pub fn do_after(&self, delay: Duration, work: impl FnOnce() + Send + 'static) {
        if delay.is_zero() {
            return work();
        }
        let mut sender: MutexGuard<'_, _> = self.0.lock().expect("no panic while it is locked");
        let sender = sender.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            thread::spawn(move || run(&receiver));
            sender
        });
        sender.send((Instant::now() + delay, Box::new(work))).expect("the thread waits for work");
    }
}

fn run(receiver: &std::sync::mpsc::Receiver<(Instant, Work)>) {
    let mut waiting: BTreeMap<(Instant, u64), Work> = BTreeMap::new();
    let (mut number, mut is_open) = (0, true);
    while is_open || !waiting.is_empty() {
        while let Some(first) = waiting.first_entry()
            && first.key().0 <= Instant::now()
        {
            first.remove()();
        }
        let next = waiting.first_key_value().map(|((due, _), _)| *due);
        let left = next.map_or(Duration::from_secs(3600), |due| due - Instant::now().min(due));
        match receiver.recv_timeout(left) {
            Ok((due, work)) => {
                number += 1;
                waiting.insert((due, number), work);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                is_open = false;
                thread::sleep(left.min(Duration::from_millis(5)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn late_work_is_done_when_it_is_due_in_another_order_than_it_came() {
        let (sender, receiver) = mpsc::channel();
        let late = Late::default();
        let began = Instant::now();
        for millis in [300, 0, 100, 200] {
            let sender = sender.clone();
            late.do_after(Duration::from_millis(millis), move || sender.send(millis).unwrap());
        }
        drop((late, sender));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 100, 200, 300]);
        assert!(began.elapsed() >= Duration::from_millis(300));
    }
}
