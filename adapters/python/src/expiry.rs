//! Times at which entries expire, as Python code states and gets them: in seconds, like those of
//! the module `time`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minikv::Expiry;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The time at which a new entry expires.
#[derive(Clone, Copy)]
pub enum Expires {
    Never,
    After(Duration),
    At(SystemTime),
}

/// Returns the expiry that the arguments `ttl` and `expires` of a put ask for.
///
/// # Errors
/// A `ValueError` if the entry cannot expire, or for a negative number; a `TypeError` for both
/// arguments together, or for one that is no time.
pub fn expires_of(
    is_expiring: bool,
    ttl: Option<&Bound<'_, PyAny>>,
    expires: Option<&Bound<'_, PyAny>>,
) -> PyResult<Expires> {
    let (name, argument) = match (ttl, expires) {
        (None, None) => return Ok(Expires::Never),
        (Some(_), Some(_)) => {
            return Err(PyTypeError::new_err("'ttl' cannot be used together with 'expires'"));
        }
        (Some(ttl), None) => ("ttl", ttl),
        (None, Some(expires)) => ("expires", expires),
    };
    if !is_expiring {
        let text = format!("'{name}' can be used only in an expiring keyspace");
        return Err(PyValueError::new_err(text));
    }
    let time = if name == "ttl" {
        duration(name, "total_seconds", argument)?.map(Expires::After)
    } else {
        let since = duration(name, "timestamp", argument)?;
        since.and_then(|since| UNIX_EPOCH.checked_add(since)).map(Expires::At)
    };
    Ok(time.unwrap_or(Expires::Never))
}

/// Returns the time that the argument `name` states: a number of seconds, or an object whose method
/// `seconds` returns that number. Returns `None` for infinity, and for more than 500,000 years.
///
/// # Errors
/// A `TypeError` if the argument is neither; a `ValueError` for a negative number or NaN.
pub fn duration(
    name: &str,
    seconds: &str,
    argument: &Bound<'_, PyAny>,
) -> PyResult<Option<Duration>> {
    let number = match argument.hasattr(seconds)? {
        true => argument.call_method0(seconds)?,
        false => argument.clone(),
    };
    let wrong = |_| PyTypeError::new_err(format!("'{name}' must be a number of seconds or a time"));
    let seconds: f64 = number.extract().map_err(wrong)?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("'{name}' must not be negative")));
    }
    // Rounds to microseconds, since a whole number of milliseconds is seldom a whole `f64`. The
    // library rounds down to milliseconds.
    let micros = (seconds * 1e6).round();
    Ok((micros < u64::MAX as f64).then(|| Duration::from_micros(micros as u64)))
}

/// Returns the seconds from 1970 until the entry expires; infinity, if it never does.
pub fn seconds_of(expiry: Expiry) -> f64 {
    match expiry {
        Expiry::At(time) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            seconds_of_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        }
        Expiry::Never => f64::INFINITY,
    }
}

/// Returns the seconds in `millis` milliseconds; infinity for `u64::MAX`, which stands for never.
pub fn seconds_of_millis(millis: u64) -> f64 {
    if millis == u64::MAX { f64::INFINITY } else { millis as f64 / 1e3 }
}
