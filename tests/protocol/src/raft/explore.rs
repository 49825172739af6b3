//! The exploration of the store: every order of steps, and what must always hold.

use std::collections::BTreeMap;

use stateright::{Model, Property};

use crate::raft::bounds::{Bounds, count, steps};
use crate::raft::files::{Entry, Index, Place, Term};
use crate::raft::found::{Found, find};
use crate::raft::laws::Laws;
use crate::raft::replica::{Budget, Installing, Move, Replica};
use crate::raft::take::take;

/// A vote never goes back.
pub const VOTE: &str = "a saved vote never goes back";
/// Durable entries stay.
pub const FLUSHED: &str = "an entry that was reported as durable is there";
/// The log has no holes.
pub const HOLES: &str = "the log has no hole";
/// The terms of entries go up.
pub const ORDER: &str = "no entry of the log has an earlier term than one before it";
/// Truncated entries are gone.
pub const TRUNCATED: &str = "a truncated entry does not come back";
/// A purge stays within the state.
pub const PURGED: &str = "a purge is lasting, and never goes beyond the state";
/// Entries are applied exactly once.
pub const MACHINE: &str = "the state has each entry up to the last applied one, once";
/// Snapshots stay.
pub const SNAPSHOT: &str = "a snapshot that was reported is there, or a newer one";
/// Committed entries can be applied.
pub const REAPPLY: &str = "committed entries that the state lacks are in the log";
/// An open succeeds.
pub const STARTS: &str = "the store opens";
/// Leftovers are removed.
pub const CLEAN: &str = "an open removes what a crash has left behind";
/// An installation finds its snapshot.
pub const INSTALLS: &str = "a snapshot stays until it is installed";

/// The names of everything that must always hold.
pub const ALWAYS: [&str; 12] = [
    VOTE, FLUSHED, HOLES, ORDER, TRUNCATED, PURGED, MACHINE, SNAPSHOT, REAPPLY, STARTS, CLEAN,
    INSTALLS,
];

/// A loss of power takes entries.
pub const TAKES: &str = "a loss of power takes entries that were not durable";
/// A snapshot replaces the state.
pub const REPLACES: &str = "a snapshot replaces the state";
/// An open installs a snapshot.
pub const RESUMED: &str = "an open installs a snapshot that a crash has interrupted";
/// Entries of another term come after a truncation.
pub const CHANGES: &str = "entries of another leader take the place of truncated ones";
/// A purge follows a snapshot that this node has made.
pub const TRIMS: &str = "a log is purged after a snapshot";

/// The model, with bounds.
#[derive(Clone, Debug)]
pub struct Exploration {
    pub laws: Laws,
    pub most: Bounds,
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
}

impl Model for Exploration {
    type State = Replica;
    type Action = Move;

    fn init_states(&self) -> Vec<Replica> {
        let node = Replica::new(&self.laws);
        let node = take(&self.laws, &node, &Move::Open).unwrap_or(node);
        vec![take(&self.laws, &node, &Move::Opened).unwrap_or(node)]
    }

    fn actions(&self, node: &Replica, actions: &mut Vec<Move>) {
        let (spent, most) = (&node.spent, &self.most.spent);
        match &node.life {
            // After the last crash, there is nothing to be found out.
            Err(_) if (spent.kills, spent.losses) == (most.kills, most.losses) => {}
            Err(_) => actions.push(Move::Open),
            Ok(life) => {
                actions.extend(steps(&self.laws, &self.most, node, life));
                if spent.kills < most.kills {
                    actions.push(Move::Stop);
                }
            }
        }
        if spent.losses < most.losses {
            let images = node.files.images().into_iter();
            actions.extend(images.map(|image| Move::PowerLoss(Box::new(image))));
        }
    }

    fn next_state(&self, node: &Replica, step: Move) -> Option<Replica> {
        let mut node = take(&self.laws, node, &step).ok()?;
        count(&mut node.spent, &step);
        Some(take(&self.laws, &node, &Move::Opened).unwrap_or(node))
    }

    fn properties(&self) -> Vec<Property<Exploration>> {
        let mut properties = crashed();
        properties.extend(running());
        properties.extend(goals());
        properties.retain(|p| self.always.contains(&p.name) || self.sometimes.contains(&p.name));
        assert_eq!(properties.len(), self.always.len() + self.sometimes.len(), "a name is wrong");
        properties
    }
}

/// Returns what an open would find, if the store is not open and opens.
fn opening(model: &Exploration, node: &Replica) -> Option<Found> {
    let is_closed = node.life.is_err();
    is_closed.then(|| find(&model.laws, &node.files).ok()).flatten()
}

/// Returns the entries that are not purged, without the other ones.
fn live_log(log: &BTreeMap<Index, Term>, purged: Entry) -> impl Iterator<Item = Entry> {
    let live = log.range(purged.index + 1..);
    live.map(|(index, term)| Entry { term: *term, index: *index })
}

/// Returns whether the indices follow each other.
fn is_whole(log: &BTreeMap<Index, Term>) -> bool {
    let first = log.keys().next().copied().unwrap_or(0);
    log.keys().copied().eq(first..first + log.len() as Index)
}

/// Returns whether what an open finds keeps a promise.
///
/// # Panics
/// If the name is not one of a property.
pub fn keeps(name: &str, node: &Replica, found: &Found) -> bool {
    let Found { log, purged, applied, .. } = found;
    let promised = &node.promised;
    match name {
        VOTE => found.vote >= promised.vote,
        FLUSHED => promised
            .log
            .iter()
            .all(|(index, term)| *index <= purged.index || log.get(index) == Some(term)),
        HOLES => {
            is_whole(log)
                && live_log(log, *purged).next().is_none_or(|e| e.index == purged.index + 1)
        }
        ORDER => {
            let ids = std::iter::once(*purged).chain(live_log(log, *purged));
            ids.is_sorted()
        }
        TRUNCATED => live_log(log, *purged).all(|entry| !promised.dead.contains(&entry)),
        PURGED => *purged >= promised.purged && purged.index <= applied.index,
        MACHINE => found.machine[..] == *node.history(applied.index),
        SNAPSHOT => found.snapshot >= promised.snapshot && found.snapshot <= *applied,
        REAPPLY => {
            let mut missing = applied.index + 1..=found.committed;
            missing.all(|index| {
                let chosen = node.chosen.get(usize::from(index) - 1);
                log.get(&index).copied() == chosen.map(|entry| entry.term)
            })
        }
        _ => panic!("no property of what an open finds: {name}"),
    }
}

/// Returns what must hold after each crash.
fn crashed() -> Vec<Property<Exploration>> {
    /// Returns a property of what an open finds.
    macro_rules! found {
        ($($name:expr),*) => {
            vec![$(Property::always($name, |model: &Exploration, node: &Replica| {
                opening(model, node).is_none_or(|found| keeps($name, node, &found))
            })),*]
        };
    }
    found!(VOTE, FLUSHED, HOLES, ORDER, TRUNCATED, PURGED, SNAPSHOT, REAPPLY)
}

/// Returns what must hold while the store is open, too.
fn running() -> Vec<Property<Exploration>> {
    vec![
        Property::always(STARTS, |model: &Exploration, node: &Replica| {
            node.life.is_ok() || find(&model.laws, &node.files).is_ok()
        }),
        Property::always(MACHINE, |model: &Exploration, node: &Replica| match &node.life {
            Err(_) => opening(model, node).is_none_or(|found| keeps(MACHINE, node, &found)),
            Ok(life) => node
                .files
                .states
                .get(&life.state)
                .and_then(|s| s.now())
                .is_some_and(|now| now.machine[..] == *node.history(now.applied.index)),
        }),
        Property::always(CLEAN, |_, node: &Replica| is_clean(node)),
        Property::always(INSTALLS, |_, node: &Replica| !node.promised.has_lost_received),
    ]
}

/// Returns whether a store that was just opened has only what it needs.
fn is_clean(node: &Replica) -> bool {
    let Ok(life) = &node.life else { return true };
    let used = [
        life.building.map(|(id, _)| id),
        life.installing.map(|(id, _)| id),
        life.transfer.map(|(id, _)| id),
        life.received,
        life.snapshot,
    ];
    node.files.places().all(|place| match place {
        Place::Building(id) | Place::Received(id) => used.contains(&Some(id)),
        // A snapshot or a state that was replaced stays while it is read.
        Place::Kept(_) | Place::State(_) => true,
    })
}

/// Returns what an exploration may have to reach.
fn goals() -> Vec<Property<Exploration>> {
    vec![
        Property::sometimes(TAKES, |model: &Exploration, node: &Replica| {
            let found = opening(model, node).filter(|_| node.spent.losses > 0);
            found.is_some_and(|found| found.log.is_empty() && node.spent.appends > 0)
        }),
        Property::sometimes(REPLACES, |_, node: &Replica| {
            let life = node.life.as_ref().ok();
            life.is_some_and(|life| life.state > 1 && life.owes.is_none() && life.is_open)
                && node.spent.losses + node.spent.kills == 0
        }),
        Property::sometimes(RESUMED, |_, node: &Replica| {
            let life = node.life.as_ref().ok();
            life.is_some_and(|life| {
                !life.is_open && life.installing.is_some_and(|(_, step)| step == Installing::Live)
            })
        }),
        Property::sometimes(CHANGES, |_, node: &Replica| {
            let dead = node.promised.dead.first();
            dead.is_some_and(|dead| {
                node.promised.log.get(&dead.index).is_some_and(|term| *term > dead.term)
            })
        }),
        Property::sometimes(TRIMS, |_, node: &Replica| {
            node.promised.purged.index > 0 && node.spent.builds > 0 && node.spent.offers == 0
        }),
    ]
}

/// A name and an exploration.
pub type Case = (&'static str, Exploration);

/// Nothing at all.
const NONE: Budget = Budget {
    appends: 0,
    truncations: 0,
    purges: 0,
    applies: 0,
    builds: 0,
    offers: 0,
    kills: 0,
    losses: 0,
};

/// Returns the explorations. The long ones have larger bounds.
pub fn cases(is_long: bool) -> Vec<Case> {
    let mut all = Vec::new();
    for (has_two, is_ahead) in [(false, false), (true, true)] {
        let laws = Laws { has_two, is_ahead, breach: None };
        for (names, most, sometimes) in bounds(u8::from(is_long)) {
            let (always, sometimes) = (ALWAYS.to_vec(), sometimes.to_vec());
            let exploration = Exploration { laws, most, always, sometimes };
            all.push((names[usize::from(has_two)], exploration));
        }
    }
    all
}

/// Returns the bounds of each exploration, with its name for one database and for two, and what it
/// reaches.
fn bounds(more: u8) -> [([&'static str; 2], Bounds, &'static [&'static str]); 4] {
    let log = Budget { appends: 3, truncations: 1 + more, losses: 2, kills: 1, ..NONE };
    let trim = Budget {
        appends: 2,
        truncations: 1,
        applies: 2,
        builds: 2,
        purges: 1 + more,
        losses: 1,
        kills: 1,
        ..NONE
    };
    let install =
        Budget { appends: 2, truncations: 1, applies: 1, offers: 1, losses: 1, kills: 1, ..NONE };
    let both =
        Budget { appends: 1, applies: 1, builds: 1, offers: 2, losses: 1, kills: more, ..NONE };
    let of = |spent, term, index| Bounds { spent, term, index };
    [
        (["log, one database", "log, two databases"], of(log, 2 + more, 3), &[TAKES, CHANGES]),
        (["trim, one database", "trim, two databases"], of(trim, 1, 2 + more), &[TRIMS]),
        (
            ["install, one database", "install, two databases"],
            of(install, 2, 3),
            &[REPLACES, RESUMED],
        ),
        (["snapshots, one database", "snapshots, two databases"], of(both, 1, 2), &[REPLACES]),
    ]
}
