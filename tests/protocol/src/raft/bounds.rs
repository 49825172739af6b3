//! The steps that an exploration tries, within bounds.

use crate::raft::files::{Entry, Index, Place, Term};
use crate::raft::laws::{Breach, Laws};
use crate::raft::replica::{Budget, Life, Move, Replica};

/// The most of everything in one history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    pub spent: Budget,
    /// The highest term.
    pub term: Term,
    /// The highest index.
    pub index: Index,
}

/// Returns the steps to try while the store is open. Not all of them are allowed.
pub fn steps(laws: &Laws, most: &Bounds, node: &Replica, life: &Life) -> Vec<Move> {
    let mut steps = Vec::new();
    let (spent, bound) = (&node.spent, &most.spent);
    if life.is_open {
        let vote = node.promised.vote;
        steps.extend((vote < most.term).then_some(Move::SaveVote(vote + 1)));
        if spent.appends < bound.appends && vote > 0 {
            appends(laws, most, node, life, &mut steps);
        }
        if spent.truncations < bound.truncations {
            steps.extend(life.view.keys().map(|index| Move::Truncate(*index)));
        }
        if spent.applies < bound.applies {
            steps.extend(life.view.keys().map(|index| Move::Apply(*index)));
        }
        if spent.builds < bound.builds {
            steps.push(Move::Build);
        }
        if spent.offers < bound.offers {
            steps.extend((1..=most.index).map(Move::Offer));
        }
        match life.owes {
            Some(owed) => steps.push(Move::Purge(owed.index)),
            None if spent.purges < bound.purges => {
                steps.extend((1..=most.index).map(Move::Purge));
            }
            None => {}
        }
        steps.extend([Move::Receive, Move::Finish, Move::Install, Move::ApplyRest]);
        steps.extend([Move::Truncated, Move::Purged, Move::Report]);
        steps.push(Move::Write(life.queue.len()));
        if life.queue.len() > 1 {
            steps.push(Move::Write(1));
        }
    }
    steps.extend([Move::Describe, Move::SyncState, Move::Publish, Move::Built]);
    steps.extend([Move::MoveIn, Move::MovedIn, Move::CopyState, Move::NameState]);
    steps.extend([Move::TakeOver, Move::SetLive, Move::Installed]);
    let is_removable = |place: &Place| matches!(place, Place::State(_) | Place::Kept(_));
    steps.extend(node.files.places().filter(is_removable).map(Move::Remove));
    steps
}

/// Adds appends of one entry and of two: those that a leader sends again, or new ones.
fn appends(laws: &Laws, most: &Bounds, node: &Replica, life: &Life, steps: &mut Vec<Move>) {
    let last = life.view.last_key_value().map_or(node.purged().index, |(index, _)| *index);
    let entry = |index: Index| {
        let new = Entry { term: node.promised.vote, index };
        node.chosen.get(usize::from(index) - 1).copied().unwrap_or(new)
    };
    for count in 1..=2 {
        if last + count <= most.index {
            steps.push(Move::Append((last + 1..=last + count).map(entry).collect()));
        }
    }
    if laws.lack(Breach::GapAccepted) {
        steps.push(Move::Append(vec![entry(last + 2)]));
    }
}

/// Counts a step against the bounds.
pub fn count(spent: &mut Budget, step: &Move) {
    match step {
        Move::Append(_) => spent.appends += 1,
        Move::Truncate(_) => spent.truncations += 1,
        Move::Purge(_) => spent.purges += 1,
        Move::Apply(_) => spent.applies += 1,
        Move::Build => spent.builds += 1,
        Move::Offer(_) => spent.offers += 1,
        Move::Stop => spent.kills += 1,
        Move::PowerLoss(_) => spent.losses += 1,
        _ => {}
    }
}
