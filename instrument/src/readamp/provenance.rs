//! The origin of a page: the command, the version of minikv, the date and the machine.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Information for readers of a page about the run that created it.
pub struct Provenance {
    /// The command with its arguments.
    pub command: String,
    /// The version of minikv.
    pub version: &'static str,
    /// Date in UTC, such as `2026-05-17`.
    pub date: String,
    /// The system and the processor.
    pub machine: String,
}

impl Provenance {
    /// Returns the origin of a page that this process writes now. The environment variable
    /// `SOURCE_DATE_EPOCH` replaces the current date, so that a page can be reproduced.
    pub fn of_this_run() -> Provenance {
        let command = std::env::args_os().skip(1).map(|arg| quoted(&arg.to_string_lossy()));
        let command: Vec<_> = std::iter::once("minikv".to_string()).chain(command).collect();
        Provenance {
            command: command.join(" "),
            version: env!("CARGO_PKG_VERSION"),
            date: date(seconds()),
            machine: machine(),
        }
    }
}

/// Returns `arg`, quoted for a shell if necessary.
fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=+@%".contains(c);
    match !arg.is_empty() && arg.chars().all(plain) {
        true => arg.to_string(),
        false => format!("'{}'", arg.replace('\'', r"'\''")),
    }
}

/// Returns the time of the run, in seconds since 1970.
fn seconds() -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    given.unwrap_or_else(now)
}

/// Returns the date for a time in seconds since 1970.
fn date(seconds: u64) -> String {
    let mut day = seconds / SECONDS_PER_DAY;
    let divides = |n, year: u64| year.is_multiple_of(n);
    let leap = |year| divides(4, year) && (!divides(100, year) || divides(400, year));
    let days = |year: u64| if leap(year) { 366 } else { 365 };
    let mut year = 1970;
    while day >= days(year) && year < 9999 {
        day -= days(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

/// Returns a text that names the system and the processor, as far as they are known.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cores = crate::text::count(cores as u64, "core", "cores");
    let model = processor().map(|model| format!(", {model}")).unwrap_or_default();
    format!("{} on {}{model}, {cores}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns the name of the processor, if `/proc/cpuinfo` contains it.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty() && name != "unknown").then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(951_868_800), "2000-03-01");
        assert_eq!(date(1_735_689_599), "2024-12-31");
        assert_eq!(date(1_735_689_600), "2025-01-01");
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(quoted("block:4..16"), "block:4..16");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!((quoted("it's"), quoted("")), (r"'it'\''s'".to_string(), "''".to_string()));
    }
}
