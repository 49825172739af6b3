//! Options for databases, reads and writes, under plyvel's names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use minikv::{
    BytewiseComparator, Comparator, Compression, Filters, Options, ReadOptions, WriteOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::comparator::PyComparator;
use crate::expiry::duration;

/// The parameters for opening a database.
pub struct Open {
    pub path: PathBuf,
    pub options: Options,
    /// The comparator in `options`, which also decides whether a key is in the range of an
    /// iterator.
    pub order: Arc<dyn Comparator>,
}

/// The remaining keyword arguments of a call. Each known argument is removed when its value is
/// read.
struct Arguments<'py> {
    left: Bound<'py, PyDict>,
}

impl<'py> Arguments<'py> {
    fn new(given: Option<&Bound<'py, PyDict>>, py: Python<'py>) -> PyResult<Arguments<'py>> {
        let left = given.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())?;
        Ok(Arguments { left })
    }

    /// Removes the argument `name` and returns its value; `None` if the argument is missing.
    fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.left.get_item(name)?;
        if value.is_some() {
            self.left.del_item(name)?;
        }
        Ok(value)
    }

    /// Removes the argument `name` and returns what `convert` makes of its value; `None` if the
    /// argument is missing or `None`.
    fn take_with<T>(
        &self,
        name: &str,
        convert: impl FnOnce(Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let given = self.take(name)?.filter(|value| !value.is_none());
        given.map(convert).transpose().map_err(|error| {
            let py = self.left.py();
            PyErr::from_type(error.get_type(py), format!("argument '{name}': {}", error.value(py)))
        })
    }

    /// Removes the argument `name` and returns its value; `None` if the argument is missing or
    /// `None`.
    fn take_as<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
        for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
    {
        self.take_with(name, |value| value.extract::<T>().map_err(Into::into))
    }

    /// Removes the argument `name` and returns its value as an integer: of every number, as plyvel
    /// does, but not of text.
    fn integer<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
        for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
    {
        self.take_with(name, |value| {
            let integer = match value.hasattr("__int__")? {
                true => value.call_method0("__int__")?,
                false => value,
            };
            integer.extract::<T>().map_err(Into::into)
        })
    }

    /// Removes the argument `name` and returns its value as a number, clamped to LevelDB's limits.
    fn number(&self, name: &str, least: u64, most: u64) -> PyResult<Option<u64>> {
        Ok(self.integer::<u64>(name)?.map(|number| number.clamp(least, most)))
    }

    /// Does the same as [`Arguments::number`] for a number that LevelDB takes with a sign.
    fn signed(&self, name: &str, least: u64, most: u64) -> PyResult<Option<u64>> {
        let number = self.integer::<i64>(name)?;
        Ok(number.map(|number| number.max(0).unsigned_abs().clamp(least, most)))
    }

    /// Checks that all arguments were removed.
    ///
    /// # Errors
    /// A `TypeError` if an argument remains, because no option has the name of that argument.
    fn finish(self) -> PyResult<()> {
        match self.left.keys().iter().next() {
            None => Ok(()),
            Some(name) => {
                let text = format!("'{name}' is an invalid keyword argument");
                Err(PyTypeError::new_err(text))
            }
        }
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the path in `name`, which may be a string, bytes in the encoding of the file system, or
/// a path-like object.
pub fn path_of(name: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    name.py().import("os")?.call_method1("fsdecode", (name,))?.extract()
}

/// Returns the parameters for opening the database `name` with the keyword arguments `given`.
///
/// # Errors
/// The exceptions of plyvel: a `TypeError` or an `OverflowError` if the value of an option is not
/// allowed, or a `ValueError` if a string is not allowed.
pub fn parse(name: &Bound<'_, PyAny>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Open> {
    let path = path_of(name)?;
    let arguments = Arguments::new(given, name.py())?;
    let order = comparator(&arguments)?;
    // Sets LevelDB's defaults where they differ from minikv's.
    let options = Options::default().max_open_files(1000).comparator(order.clone());
    let options = filter(&arguments, behaviour(&arguments, sizes(&arguments, options)?)?)?;
    arguments.finish()?;
    Ok(Open { path, options, order })
}

fn sizes(arguments: &Arguments<'_>, mut options: Options) -> PyResult<Options> {
    if let Some(bytes) = arguments.number("write_buffer_size", 64 << 10, 1 << 30)? {
        options = options.write_buffer_bytes(size(bytes));
    }
    if let Some(files) = arguments.signed("max_open_files", 74, 50_000)? {
        options = options.max_open_files(size(files));
    }
    if let Some(bytes) = arguments.number("lru_cache_size", 0, u64::MAX)? {
        options = options.block_cache_bytes(size(bytes));
    }
    if let Some(bytes) = arguments.number("block_size", 1 << 10, 4 << 20)? {
        options = options.block_bytes(size(bytes));
    }
    if let Some(keys) = arguments.signed("block_restart_interval", 1, u64::from(u32::MAX))? {
        options = options.block_restart_interval(size(keys));
    }
    if let Some(bytes) = arguments.number("max_file_size", 1 << 20, 1 << 30)? {
        options = options.max_file_bytes(bytes);
    }
    if let Some(bytes) = arguments.number("keep_logs_bytes", 0, u64::MAX)? {
        options = options.keep_logs_bytes(bytes);
    }
    if let Some(time) = arguments.take("keep_logs_for")?.filter(|time| !time.is_none()) {
        let time = duration("keep_logs_for", "total_seconds", &time)?;
        options = options.keep_logs_for(time.unwrap_or(Duration::MAX));
    }
    Ok(options)
}

fn behaviour(arguments: &Arguments<'_>, options: Options) -> PyResult<Options> {
    let flag = |name: &str| Ok::<_, PyErr>(arguments.take_as::<bool>(name)?.unwrap_or(false));
    let paranoid = arguments.take("paranoid_checks")?;
    let paranoid = paranoid.map_or(Ok(false), |paranoid| paranoid.is_truthy())?;
    let options = options
        .create_if_missing(flag("create_if_missing")?)
        .error_if_exists(flag("error_if_exists")?)
        .paranoid_checks(paranoid);
    let Some(compression) = arguments.take("compression")? else { return Ok(options) };
    if compression.is_none() {
        return Ok(options.compression(Compression::None));
    }
    let name = match compression.cast::<PyBytes>() {
        Ok(bytes) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        Err(_) => compression
            .extract()
            .map_err(|_| PyTypeError::new_err("'compression' must be None or a string"))?,
    };
    match name.as_str() {
        "snappy" => Ok(options.compression(Compression::Snappy)),
        _ => Err(PyValueError::new_err("'compression' must be None or 'snappy'")),
    }
}

fn filter(arguments: &Arguments<'_>, options: Options) -> PyResult<Options> {
    let bits = arguments.integer::<i64>("bloom_filter_bits")?.unwrap_or(0);
    let layout = arguments.take_as::<String>("filter_layout")?;
    let kind = match layout.as_deref() {
        None | Some("block") => Filters::Block,
        Some("table") => Filters::Table,
        Some("both") => Filters::Both,
        Some(_) => {
            let text = "'filter_layout' must be 'block', 'table' or 'both'";
            return Err(PyValueError::new_err(text));
        }
    };
    if bits <= 0 {
        return Ok(options.filters(Filters::None));
    }
    Ok(options.filters(kind(u32::try_from(bits.min(64)).unwrap_or(64))))
}

fn comparator(arguments: &Arguments<'_>) -> PyResult<Arc<dyn Comparator>> {
    let function = arguments.take("comparator")?.filter(|function| !function.is_none());
    let name = arguments.take("comparator_name")?.filter(|name| !name.is_none());
    let name = match &name {
        None => None,
        Some(name) => match name.cast::<PyBytes>() {
            Ok(name) => Some(name.as_bytes()),
            Err(_) => return Err(PyTypeError::new_err("'comparator_name' must be bytes")),
        },
    };
    match (function, name) {
        (None, None) => Ok(Arc::new(BytewiseComparator)),
        (Some(function), Some(name)) => {
            if !function.is_callable() {
                let text = "custom comparator object must be callable";
                return Err(PyTypeError::new_err(text));
            }
            let name = String::from_utf8(name.to_vec());
            let name =
                name.map_err(|_| PyValueError::new_err("'comparator_name' must be UTF-8"))?;
            Ok(Arc::new(PyComparator::new(name, function.unbind())))
        }
        _ => {
            let text = "'comparator' and 'comparator_name' must be specified together";
            Err(PyValueError::new_err(text))
        }
    }
}

/// Returns the options of a read. Checksums are verified unless the caller passes `False`.
pub fn read(verify_checksums: Option<bool>, fill_cache: Option<bool>) -> ReadOptions {
    ReadOptions::default()
        .verify_checksums(verify_checksums.unwrap_or(true))
        .fill_cache(fill_cache.unwrap_or(false))
}

/// Returns the options of a write.
pub fn write(sync: Option<bool>) -> WriteOptions {
    WriteOptions::default().sync(sync.unwrap_or(false))
}
