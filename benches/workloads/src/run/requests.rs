//! Workloads whose requests are distributed like those of published traces.

use std::time::Instant;

use super::{Current, FILL_BATCH, Stage, speed};
use crate::data::{Shuffle, Values};
use crate::measure::{Outcome, Timings};
use crate::profile::{Profile, Request, Requests};
use crate::steps::Done;
use crate::store::{Direction, Entry, Failure, Result};

impl Current {
    /// Loads the entries of `profile` untimed, and then runs the requests of `profile`.
    pub(super) fn requests(&mut self, name: &str, profile: Profile) -> Result<Outcome> {
        self.stage = Stage::Spent;
        let plan = self.plan;
        let values = Values::new(longest(&profile));
        self.load(&profile, &values)?;
        self.rest()?;

        let mut requests = Requests::new(profile, plan.entries, plan.seed);
        let (mut timings, mut value) = (Timings::new(), Vec::new());
        let operations = plan.operations(2);
        let start = Instant::now();
        let mut last = start;
        for _ in 0..operations {
            let request = requests.next_request();
            self.answer(&profile, &values, request, &mut value)?;
            let now = Instant::now();
            timings.record(now - last);
            last = now;
        }
        Ok(speed(name, &Done { operations, time: start.elapsed(), timings }))
    }

    fn load(&self, profile: &Profile, values: &Values) -> Result<()> {
        let plan = self.plan;
        let order = Shuffle::new(plan.entries, plan.seed * 100);
        for first in (0..plan.entries).step_by(FILL_BATCH as usize) {
            let positions = first..(first + FILL_BATCH).min(plan.entries);
            let entries: Vec<_> = positions
                .map(|position| {
                    let number = order.at(position);
                    let mut value = Vec::new();
                    values.fill_sized(number, profile.value_bytes(number), &mut value);
                    (profile.key(number, false), value)
                })
                .collect();
            let entries: Vec<Entry<'_>> = entries.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            self.store.put_batch(&entries)?;
        }
        Ok(())
    }

    /// Executes a request, and checks its result.
    fn answer(
        &self,
        profile: &Profile,
        values: &Values,
        request: Request,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        match request {
            Request::Get { number, missing } => {
                let key = profile.key(number, missing);
                let mut right = false;
                let check = &mut |value: &[u8]| right = values.is_sized(number, value);
                match (self.store.get(&key, check)?, missing) {
                    (true, true) => Err(wrong(&key, "found, though it is absent")),
                    (false, false) => Err(wrong(&key, "not found")),
                    (true, false) if !right => Err(wrong(&key, "a wrong value")),
                    _ => Ok(()),
                }
            }
            Request::Put { number, value_bytes } => {
                values.fill_sized(number, value_bytes, value);
                self.store.put(&profile.key(number, false), value, false)
            }
            Request::Scan { number, entries } => {
                let (mut next, end) = (number, (number + entries).min(self.plan.entries));
                let from = profile.key(number, false);
                self.store.scan(Some(&from), Direction::Forward, &mut |_, value| {
                    let is_right = values.is_sized(next, value);
                    next += u64::from(is_right);
                    is_right && next < end
                })?;
                match next == end {
                    true => Ok(()),
                    false => Err(wrong(&from, "a scan from here shows a wrong value or too few")),
                }
            }
        }
    }
}

/// Returns the maximum length of a value, in bytes.
fn longest(profile: &Profile) -> usize {
    match profile {
        Profile::Mixgraph(mixgraph) => mixgraph.max_value_bytes as usize,
        Profile::Cache(cache) => cache.value_bytes,
    }
}

fn wrong(key: &[u8], what: &str) -> Failure {
    format!("key {}: {what}", String::from_utf8_lossy(key)).into()
}
