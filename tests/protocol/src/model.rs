//! The exploration of the protocol: every order of moves, and what must always hold.

use stateright::{Model, Property};

use crate::check::check_shown;
use crate::disk::{Id, Name, Record};
use crate::moves::Moves;
use crate::recover::recover;
use crate::relabel::simplify;
use crate::rules::Rules;
use crate::state::{Action, Ending, Phase, Spent, State};
use crate::step::step;

/// Synced writes survive a loss of power.
pub const SYNCED: &str = "synced writes survive a loss of power";
/// Acknowledged writes survive a kill.
pub const ACKNOWLEDGED: &str = "acknowledged writes survive a kill";
/// The writes that an open finds are a prefix.
pub const PREFIX: &str = "an open finds a prefix of the writes";
/// An open succeeds.
pub const OPENS: &str = "an open succeeds";
/// No needed file is removed.
pub const KEPT: &str = "no needed file is removed";
/// A failed log takes no more writes.
pub const FAILED: &str = "nothing is acknowledged after a failed sync";
/// Numbers of files are unique.
pub const NUMBERS: &str = "no number of a needed file is reused";
/// Readers see what was applied.
pub const READERS: &str = "readers see the applied writes";

/// The model, with bounds.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub rules: Rules,
    /// The most of everything that the first process does, and the most stops in one history.
    pub most: Spent,
    /// The most of everything that later processes do.
    pub later: Spent,
    /// Whether files are removed as soon as the rules allow it, and not at any time after that.
    pub eager: bool,
    /// The state in which each history begins.
    pub start: State,
    /// Names of properties that must always hold.
    pub always: Vec<&'static str>,
    /// Names of states that the exploration must reach.
    pub sometimes: Vec<&'static str>,
}

impl Model for Protocol {
    type State = State;
    type Action = Vec<Action>;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Vec<Action>>) {
        match &state.process {
            // After the last stop, there is nothing to be found out.
            Err(_) => {
                let Spent { kills, losses, .. } = state.spent;
                if (kills, losses) != (self.most.kills, self.most.losses) {
                    actions.push(vec![Action::Open]);
                }
            }
            Ok(process) => {
                let is_first = state.spent.kills + state.spent.losses == 0;
                let most = if is_first { &self.most } else { &self.later };
                let mut moves =
                    Moves { rules: &self.rules, most, state, process, moves: Vec::new() };
                moves.add_all();
                if !self.eager {
                    moves.add_removals();
                }
                actions.extend(moves.moves);
            }
        }
        if state.spent.kills < self.most.kills && state.process.is_ok() {
            actions.push(vec![Action::Stop]);
        }
        if state.spent.losses < self.most.losses {
            let images = state.disk.images().into_iter();
            actions.extend(images.map(|image| vec![Action::PowerLoss(Box::new(image))]));
        }
    }

    fn next_state(&self, last_state: &State, steps: Vec<Action>) -> Option<State> {
        let mut state = last_state.clone();
        for action in &steps {
            state = step(&self.rules, &state, action).ok()?;
            count(&mut state, action);
        }
        // A version is shown, and an open returns, as soon as it is allowed.
        for follow in [Action::Show, Action::Opened] {
            state = step(&self.rules, &state, &follow).unwrap_or(state);
        }
        if self.eager {
            for name in replaced(&state) {
                state = step(&self.rules, &state, &Action::Remove(name)).unwrap_or(state);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = invariants();
        properties.extend(goals());
        properties.retain(|p| self.always.contains(&p.name) || self.sometimes.contains(&p.name));
        assert_eq!(properties.len(), self.always.len() + self.sometimes.len(), "a name is wrong");
        properties
    }
}

/// Returns the files that newer files have taken the place of.
fn replaced(state: &State) -> Vec<Name> {
    let Ok(process) = &state.process else { return Vec::new() };
    let target = state.disk.targets().last().copied().flatten();
    let is_replaced = |name: &Name| match name {
        Name::Log(number) => Some(*number) < process.log,
        Name::Table(number) => Some(number) < process.shown.tables.last(),
        Name::Manifest(number) => Some(*number) < target,
        Name::Temp(_) | Name::Current => false,
    };
    state.disk.list().filter(is_replaced).collect()
}

/// Counts a step against the bounds.
fn count(state: &mut State, action: &Action) {
    let spent = &mut state.spent;
    match action {
        Action::Create(Name::Log(_)) => spent.logs += 1,
        Action::Create(Name::Table(_)) => spent.tables += 1,
        Action::Create(Name::Manifest(_)) => spent.manifests += 1,
        Action::Append(_, Record::Write(id, ..)) => {
            spent.writes += 1;
            spent.next_id = *id;
        }
        Action::SyncFails(_) => spent.faults += 1,
        Action::Pin => spent.pins += 1,
        Action::Stop => spent.kills += 1,
        Action::PowerLoss(_) => spent.losses += 1,
        _ => {}
    }
    if state.process.is_err() {
        let Spent { kills, losses, faults, next_id, .. } = *spent;
        *spent = Spent { kills, losses, faults, next_id, ..Spent::default() };
        if state.process == Err(Ending::PowerLoss) {
            simplify(state);
        }
    }
}

fn found(model: &Protocol, state: &State) -> Option<(Vec<Id>, Vec<Id>)> {
    let history = state.history().into_iter().map(|write| write.id).collect();
    let found = recover(&state.disk, &model.rules).ok()?;
    Some((found.map_or_else(Vec::new, |found| found.ids()), history))
}

fn keeps(model: &Protocol, state: &State, count: usize) -> bool {
    found(model, state)
        .is_none_or(|(ids, history)| history[..count].iter().all(|id| ids.contains(id)))
}

/// Returns what must always hold.
fn invariants() -> Vec<Property<Protocol>> {
    vec![
        Property::always(OPENS, |model: &Protocol, state: &State| {
            state.process.as_ref().is_ok_and(|process| process.phase == Phase::Opening)
                || recover(&state.disk, &model.rules).is_ok()
        }),
        Property::always(PREFIX, |model: &Protocol, state: &State| {
            found(model, state).is_none_or(|(ids, history)| history.starts_with(&ids))
        }),
        Property::always(SYNCED, |model: &Protocol, state: &State| {
            keeps(model, state, state.promised)
        }),
        Property::always(ACKNOWLEDGED, |model: &Protocol, state: &State| {
            state.process == Err(Ending::PowerLoss) || keeps(model, state, state.applied.len())
        }),
        Property::always(KEPT, |_, state: &State| !state.misdeeds.removed_needed),
        Property::always(FAILED, |_, state: &State| !state.misdeeds.acknowledged_after_failure),
        Property::always(NUMBERS, |_, state: &State| !state.misdeeds.reused_number),
        Property::always(READERS, |_, state: &State| match &state.process {
            Ok(process) if process.phase != Phase::Opening => check_shown(state).is_ok(),
            _ => true,
        }),
    ]
}

/// The names of everything that must always hold.
pub const INVARIANTS: [&str; 8] =
    [OPENS, PREFIX, SYNCED, ACKNOWLEDGED, KEPT, FAILED, NUMBERS, READERS];

/// A write that was not synced is gone after a loss of power.
pub const LOSES: &str = "a loss of power takes an unsynced write";
/// An open leaves out logs.
pub const LEAVES_OUT: &str = "an open leaves out a part of the logs";
/// A read-only process recovers.
pub const RESUMES: &str = "a process whose log has failed accepts writes again";
/// A flush is complete.
pub const FREES: &str = "a flushed log is removed";
/// A compaction is complete.
pub const MERGES: &str = "two tables are merged and removed";
/// An open finds writes, and takes more.
pub const REOPENS: &str = "a process writes after a loss of power";
/// A reader keeps a table.
pub const HOLDS: &str = "a reader holds a table that the version has dropped";

fn runs(state: &State) -> bool {
    state.process.as_ref().is_ok_and(|process| process.phase == Phase::Running)
}

/// Returns what an exploration may have to reach.
fn goals() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes(LOSES, |model: &Protocol, state: &State| {
            state.process == Err(Ending::PowerLoss)
                && found(model, state).is_some_and(|(ids, history)| ids.len() < history.len())
        }),
        Property::sometimes(LEAVES_OUT, |_, state: &State| {
            runs(state) && state.process.as_ref().is_ok_and(|process| process.left_out)
        }),
        Property::sometimes(RESUMES, |_, state: &State| {
            let is_resumed = runs(state) && state.spent.faults > 0 && state.spent.logs > 0;
            // In the first process, and the log that failed is gone.
            is_resumed && state.spent.kills + state.spent.losses == 0 && state.spent.writes > 1
        }),
        Property::sometimes(FREES, |_, state: &State| {
            let has_old_log =
                |first| state.disk.list().any(|name| matches!(name, Name::Log(log) if log < first));
            runs(state)
                && state.process.as_ref().is_ok_and(|process| {
                    !process.shown.tables.is_empty() && !has_old_log(process.shown.log)
                })
        }),
        Property::sometimes(MERGES, |_, state: &State| {
            let tables = state.disk.list().filter(|name| matches!(name, Name::Table(_)));
            runs(state) && state.spent.tables == 1 && tables.count() == 1
        }),
        Property::sometimes(REOPENS, |_, state: &State| {
            runs(state) && state.spent.losses == 1 && state.applied.len() > 2
        }),
        Property::sometimes(HOLDS, |_, state: &State| {
            state.process.as_ref().is_ok_and(|process| {
                let mut held = process.pinned.iter().flatten();
                held.any(|held| !process.shown.tables.contains(held))
            })
        }),
    ]
}
