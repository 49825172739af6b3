//! The replay of a trace against the model.

use std::fmt;

use crate::disk::{Name, Refusal, refuse};
use crate::rules::Rules;
use crate::state::{Action, State};
use crate::step::step;
use crate::trace::translate::Step;

/// A step of a trace that the model does not allow.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The index of the step in the trace.
    pub at: usize,
    pub step: Step,
    pub why: Refusal,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, {:?}: {}", self.at, self.step, self.why)
    }
}

/// Replays a trace that begins with an empty disk. Returns the state at its end.
///
/// # Errors
/// The first step that the model does not allow.
pub fn replay(rules: &Rules, trace: &[Step]) -> Result<State, Box<Refused>> {
    let mut state = State::new();
    for (at, taken) in trace.iter().enumerate() {
        state = take(rules, &state, taken)
            .map_err(|why| Box::new(Refused { at, step: taken.clone(), why }))?;
    }
    Ok(state)
}

fn take(rules: &Rules, state: &State, taken: &Step) -> Result<State, Refusal> {
    let action = match taken {
        Step::Do(action) => action.clone(),
        Step::WriteFailed if state.pending.is_none() => return Ok(state.clone()),
        Step::WriteFailed => Action::Refuse,
        Step::PowerLoss { names, target, records } => {
            let pick = |name: Name, values: &[Option<Name>]| match name {
                Name::Current => target.map(Name::Temp),
                name => values.iter().flatten().copied().find(|_| names.contains(&name)),
            };
            let keeps = |name: Name, index| match name {
                Name::Temp(_) => true,
                _ => records.contains(&(name, index)),
            };
            let image = state.disk.image(pick, keeps)?;
            Action::PowerLoss(Box::new(image))
        }
    };
    let after = step(rules, state, &action)?;
    check_promises(rules, &after, &action)?;
    // The library shows a version as soon as it may.
    Ok(step(rules, &after, &Action::Show).unwrap_or(after))
}

/// Checks what the model promises after a step: whatever an open would find now is what was
/// promised.
fn check_promises(rules: &Rules, state: &State, action: &Action) -> Result<(), Refusal> {
    if !matches!(action, Action::PowerLoss(_) | Action::Stop) {
        return Ok(());
    }
    let found = crate::recover::recover(&state.disk, rules)?;
    let found = found.map_or_else(Vec::new, |found| found.ids());
    let history: Vec<_> = state.history().iter().map(|write| write.id).collect();
    let least = match action {
        Action::Stop => state.applied.len(),
        _ => state.promised,
    };
    match history.starts_with(&found) && found.len() >= least {
        true => Ok(()),
        false => refuse(format!("an open finds {found:?} of {history:?}, promised {least}")),
    }
}
