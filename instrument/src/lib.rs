//! Measures what filters, caches and levels do for the reads of a minikv database. It is built on
//! the public API of `minikv` alone; the command `minikv` is built on both.
//!
//! | module | contents |
//! | --- | --- |
//! | [`advice`] | which filters pay for the reads that a database has served |
//! | [`readamp`] | the same lookups on the same tables with different filters |
//! | [`trace`] | a page that shows databases at work |
//! | [`tree`] | a drawing of the levels |
//! | [`top`] | the counters that a writer exports, between two polls |
//! | [`data`] | entries to load |
//! | [`text`] | tables and numbers as people read them |
//! | [`progress`] | who is told how far a measurement is |
//!
//! Without the feature `measure`, which is on by default, `data`, `progress`, `readamp` and `trace`
//! are left out.
//!
//! ```
//! use minikv::{Db, Filters, Options, ReadSample};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let options = Options::default().create_if_missing(true).sample_reads(&ReadSample::new());
//! let db = Db::open(path, options.filters(Filters::None))?;
//! for i in 0..1000 {
//!     db.put(format!("user/{i:04}"), "here")?;
//! }
//! db.flush()?;
//! for i in 0..1000 {
//!     db.get(format!("user/{i:04}/draft"))?; // does not exist
//! }
//! let advice = minikv_instrument::advise(&db)?;
//! assert_ne!(advice.filters, Filters::None);
//! println!("{advice}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(feature = "measure"), allow(dead_code, reason = "measurements use the rest"))]

pub mod advice;
#[cfg(feature = "measure")]
pub mod data;
#[cfg(feature = "measure")]
mod error;
mod order;
#[cfg(feature = "measure")]
pub mod progress;
pub mod random;
#[cfg(feature = "measure")]
pub mod readamp;
pub mod text;
pub mod top;
#[cfg(feature = "measure")]
pub mod trace;
pub mod tree;

pub use advice::{FilterAdvice, Sampled, advise};
#[cfg(feature = "measure")]
pub use error::{Error, Result};
