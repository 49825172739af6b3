//! Names of files, as in LevelDB's `db/filename.cc`. Only the name that is written for a number is
//! a name: docs/format.md, under "The directory". LevelDB also takes other spellings of a number.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Current,
    Lock,
    InfoLog,
    OldInfoLog,
    Log(u64),
    Table(u64),
    OldTable(u64),
    Manifest(u64),
    Temp(u64),
}

pub fn name(name: &str) -> Option<Name> {
    match name {
        "CURRENT" => return Some(Name::Current),
        "LOCK" => return Some(Name::Lock),
        "LOG" => return Some(Name::InfoLog),
        "LOG.old" => return Some(Name::OldInfoLog),
        _ => {}
    }
    if let Some(digits) = name.strip_prefix("MANIFEST-") {
        return number(digits).map(Name::Manifest);
    }
    let (digits, extension) = name.split_once('.')?;
    let number = number(digits)?;
    match extension {
        "log" => Some(Name::Log(number)),
        "ldb" => Some(Name::Table(number)),
        "sst" => Some(Name::OldTable(number)),
        "dbtmp" => Some(Name::Temp(number)),
        _ => None,
    }
}

/// Returns the number that is written as `digits`.
fn number(digits: &str) -> Option<u64> {
    let mut number: u128 = 0;
    for digit in digits.bytes() {
        if !digit.is_ascii_digit() || number > 1 << 64 {
            return None;
        }
        number = number * 10 + u128::from(digit - b'0');
    }
    (number < 1 << 64 && written(number) == digits).then_some(number as u64)
}

/// Returns the number in decimal, filled up with zeros to six digits.
fn written(mut number: u128) -> String {
    let mut digits = String::new();
    while number > 0 || digits.len() < 6 {
        digits.insert(0, char::from(b'0' + (number % 10) as u8));
        number /= 10;
    }
    digits
}

/// Returns the MANIFEST that a file `CURRENT` names. The newline may follow a carriage return: the
/// documentation of `parse_current`. LevelDB takes any name.
pub fn current(contents: &[u8]) -> Option<&str> {
    let text = str::from_utf8(contents).ok()?;
    let line = text.strip_suffix('\n')?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    matches!(name(line), Some(Name::Manifest(_))).then_some(line)
}
