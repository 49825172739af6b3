//! The lease: the period during which no other node can be leader.
//!
//! A node that accepts a message from a leader does not vote for another leader for the length of
//! the lease, which begins when the message arrives. The length is openraft's
//! `election_timeout_max`. If a quorum has accepted messages that were sent at or after a time T,
//! no other leader is elected before T plus the length of the lease, because every quorum contains
//! at least one of these nodes. The leader itself is one of them, and openraft lets it vote for
//! another node at any time: its lease ends before the candidate hears of that. Times are read from
//! this node's monotonic clock, which keeps running while the process is stopped. A tenth of the
//! length is subtracted because clocks may run at different speeds. A restarted node waits for the
//! length of one lease before it votes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openraft::Vote;

/// For each follower, the time at which this node, as the leader, sent the latest message that the
/// follower has accepted.
pub(crate) struct Lease {
    length: Duration,
    seen: Mutex<Seen>,
}

struct Seen {
    vote: Vote<u64>,
    sent: BTreeMap<u64, Instant>,
}

impl Lease {
    pub(crate) fn new(election_timeout_max: Duration) -> Lease {
        let seen = Seen { vote: Vote::default(), sent: BTreeMap::new() };
        Lease { length: election_timeout_max.mul_f64(0.9), seen: Mutex::new(seen) }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the node `target` has accepted a message that this node, with the vote `vote`,
    /// sent at the time `sent`.
    pub(crate) fn accepted(&self, vote: &Vote<u64>, target: u64, sent: Instant) {
        let mut seen = self.lock();
        if seen.vote != *vote {
            if *vote < seen.vote {
                return;
            }
            *seen = Seen { vote: *vote, sent: BTreeMap::new() };
        }
        let last = seen.sent.entry(target).or_insert(sent);
        *last = sent.max(*last);
    }

    /// Records that this node has voted with `vote`, so that another node may lead. Leads with
    /// earlier votes have no lease any more.
    pub(crate) fn voted(&self, vote: &Vote<u64>) {
        let mut seen = self.lock();
        if *vote > seen.vote {
            *seen = Seen { vote: *vote, sent: BTreeMap::new() };
        }
    }

    /// Returns the end of the lease: until then, the node `own`, whose vote is `vote`, is the only
    /// leader. The lease needs a quorum in each set of voters in `configs`.
    pub(crate) fn until(
        &self,
        vote: &Vote<u64>,
        own: u64,
        configs: &[BTreeSet<u64>],
        now: Instant,
    ) -> Option<Instant> {
        Some(self.quorum_at(vote, own, configs, now)? + self.length)
    }

    /// Returns the latest time such that messages sent at or after this time were accepted by a
    /// quorum of each set of voters in `configs`.
    pub(crate) fn quorum_at(
        &self,
        vote: &Vote<u64>,
        own: u64,
        configs: &[BTreeSet<u64>],
        now: Instant,
    ) -> Option<Instant> {
        let seen = self.lock();
        if seen.vote != *vote && configs.iter().any(|voters| voters.len() > 1) {
            return None;
        }
        let quorum_sent = |voters: &BTreeSet<u64>| {
            let sent_to =
                |id: &u64| if *id == own { Some(now) } else { seen.sent.get(id).copied() };
            let mut sent: Vec<Option<Instant>> = voters.iter().map(sent_to).collect();
            sent.sort_unstable_by(|a, b| b.cmp(a));
            sent.get(voters.len() / 2).copied().flatten()
        };
        configs.iter().map(quorum_sent).min()?
    }

    /// Returns the time at which this node, with the vote `vote`, sent the latest message that the
    /// node `target` has accepted.
    pub(crate) fn last(&self, vote: &Vote<u64>, target: u64) -> Option<Instant> {
        let seen = self.lock();
        seen.sent.get(&target).copied().filter(|_| seen.vote == *vote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_the_quorum_of_every_config() {
        let lease = Lease::new(Duration::from_secs(10));
        let (vote, start) = (Vote::new_committed(2, 1), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let old = BTreeSet::from([1, 2, 3]);
        let new = BTreeSet::from([1, 4, 5]);
        assert_eq!(lease.until(&vote, 1, std::slice::from_ref(&old), at(9)), None);

        lease.accepted(&vote, 2, at(3));
        lease.accepted(&vote, 3, at(5));
        lease.accepted(&vote, 2, at(1)); // a late answer
        let until = lease.until(&vote, 1, std::slice::from_ref(&old), at(9));
        assert_eq!(until, Some(at(5 + 9)));

        assert_eq!(lease.until(&vote, 1, &[old.clone(), new.clone()], at(9)), None);
        lease.accepted(&vote, 4, at(4));
        assert_eq!(lease.until(&vote, 1, &[old.clone(), new], at(9)), Some(at(4 + 9)));

        // A new term starts without a lease.
        let next = Vote::new_committed(3, 1);
        assert_eq!(lease.until(&next, 1, std::slice::from_ref(&old), at(9)), None);
        lease.accepted(&next, 2, at(8));
        lease.accepted(&vote, 3, at(9));
        assert_eq!(lease.until(&next, 1, &[old], at(9)), Some(at(8 + 9)));
    }

    #[test]
    fn of_five_voters_two_others_must_have_accepted() {
        let lease = Lease::new(Duration::from_secs(10));
        let (vote, start) = (Vote::new_committed(1, 1), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let voters = [BTreeSet::from([1, 2, 3, 4, 5])];
        lease.accepted(&vote, 2, at(5));
        assert_eq!(lease.until(&vote, 1, &voters, at(9)), None);
        lease.accepted(&vote, 3, at(4));
        assert_eq!(lease.until(&vote, 1, &voters, at(9)), Some(at(4 + 9)));
    }

    #[test]
    fn a_single_voter_needs_nobody() {
        let lease = Lease::new(Duration::from_secs(10));
        let now = Instant::now();
        let until = lease.until(&Vote::new_committed(1, 1), 1, &[BTreeSet::from([1])], now);
        assert_eq!(until, Some(now + Duration::from_secs(9)));
    }
}
