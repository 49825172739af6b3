//! Calls that run on libuv threads and return promises.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use minikv::Bytes;
use napi::bindgen_prelude::{AsyncTask, BufferSlice, ToNapiValue, Unknown};
use napi::{Env, ScopedTask};
use serde::Serialize;

use crate::error::Fault;

/// The result of a call.
pub enum Reply {
    Nothing,
    /// Bytes that become a string, in which invalid UTF-8 is replaced.
    Text(Bytes),
    /// A value that becomes a `Buffer`.
    Value(Bytes),
    /// Frames, which become a `Buffer` without being copied.
    Frames(Vec<u8>),
    Flag(bool),
    Number(f64),
}

impl Reply {
    /// Returns the reply that contains a report as JSON.
    pub fn report(report: impl Serialize) -> Result<Reply, Fault> {
        let json = serde_json::to_vec(&report).map_err(|error| Fault::Other(error.to_string()))?;
        Ok(Reply::Text(json.into()))
    }

    /// Converts the reply to a JavaScript value.
    pub fn into_js(self, env: &Env) -> napi::Result<Unknown<'_>> {
        match self {
            Reply::Nothing => ().into_unknown(env),
            Reply::Text(bytes) => {
                env.create_string(String::from_utf8_lossy(&bytes))?.into_unknown(env)
            }
            Reply::Value(bytes) => BufferSlice::copy_from(env, bytes)?.into_unknown(env),
            Reply::Frames(bytes) => BufferSlice::from_data(env, bytes)?.into_unknown(env),
            Reply::Flag(flag) => flag.into_unknown(env),
            Reply::Number(number) => number.into_unknown(env),
        }
    }
}

/// Work to be done on a libuv thread.
type Work = Box<dyn FnOnce() -> Result<Reply, Fault> + Send>;

/// A call that runs on a libuv thread.
pub struct Job(Option<Work>);

/// Starts `work` on a libuv thread, and returns a promise of the result.
pub fn start(work: impl FnOnce() -> Result<Reply, Fault> + Send + 'static) -> AsyncTask<Job> {
    AsyncTask::new(Job(Some(Box::new(work))))
}

/// Runs `work`, and turns a panic into an error.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// Runs `work` on the event loop, and returns its result as a JavaScript value.
///
/// # Errors
/// The error of `work`, as a JavaScript exception.
pub fn at_once<'env>(
    env: &'env Env,
    work: impl FnOnce() -> Result<Reply, Fault>,
) -> napi::Result<Unknown<'env>> {
    match guarded(work) {
        Ok(reply) => reply.into_js(env),
        Err(fault) => Err(fault.into_error(*env)),
    }
}

impl<'task> ScopedTask<'task> for Job {
    type Output = Result<Reply, Fault>;
    type JsValue = Unknown<'task>;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        Ok(match self.0.take() {
            Some(work) => guarded(work),
            None => Err(Fault::Other("the call was already made".to_owned())),
        })
    }

    fn resolve(&mut self, env: &'task Env, output: Self::Output) -> napi::Result<Unknown<'task>> {
        at_once(env, || output)
    }
}

fn of_panic(panic: &(dyn Any + Send)) -> Fault {
    let message = match panic.downcast_ref::<&str>() {
        Some(message) => message,
        None => panic.downcast_ref::<String>().map_or("no message", String::as_str),
    };
    Fault::Other(format!("the call panicked: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(panics: impl FnOnce()) -> String {
        let work = || {
            panics();
            Ok(())
        };
        match guarded(work) {
            Err(Fault::Other(text)) => text,
            Err(_) => "another fault".to_owned(),
            Ok(()) => "no fault".to_owned(),
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(text_of(|| ()), "no fault");
        assert_eq!(text_of(|| panic!("at once")), "the call panicked: at once");
        assert_eq!(text_of(|| panic!("{}", 7)), "the call panicked: 7");
        assert_eq!(text_of(|| std::panic::panic_any(7)), "the call panicked: no message");
    }

    #[test]
    fn a_job_that_panics_has_a_result() {
        let mut job = Job(Some(Box::new(|| panic!("on a thread"))));
        assert!(matches!(job.compute(), Ok(Err(Fault::Other(_)))));
        assert!(matches!(job.compute(), Ok(Err(Fault::Other(_)))));
    }
}
