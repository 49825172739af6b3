//! Transcript tests of `Pace`: the time that flushes need to catch up with a writer.

use std::time::Duration;

use crate::base::transcript::{self, Command, number};
use crate::engine::write::pace::Pace;
use crate::engine::write::room::{MAX_WAIT, MIN_WAIT};

#[test]
fn a_writer_keeps_pace_with_the_flushes() {
    let pace = Pace::default();
    transcript::run("pace", |command: &Command<'_>| {
        let bytes = |at: usize| number(command.args[at]);
        match command.name {
            "frozen" => pace.frozen(bytes(0)),
            "written" => pace.flush(bytes(0)).advance(bytes(0)),
            "flushed" => pace.flush(bytes(0)).done(),
            "timed" => {
                let millis = command.args[1].strip_suffix("ms").expect("milliseconds");
                pace.timed(bytes(0), Duration::from_millis(number(millis)));
            }
            // `lead buffer=SIZE SIZE…`: the write buffer's size, then sizes of the memtable.
            "lead" => {
                let buffer = command.number("buffer", 0) as usize;
                let line = |size: &&str| {
                    let lead = pace.lead(number(size) as usize, buffer);
                    let note = match lead {
                        lead if lead < MIN_WAIT => "no wait",
                        lead if lead > MAX_WAIT => "the longest wait",
                        _ => "waits as long",
                    };
                    format!("{size}: {lead:?} ahead, {note}")
                };
                return command.args[1..].iter().map(line).collect::<Vec<_>>().join("\n");
            }
            _ => command.unknown(),
        }
        String::new()
    });
}
