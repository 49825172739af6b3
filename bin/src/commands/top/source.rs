//! The file or address that a writer's metrics are read from.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use minikv_instrument::top::Metrics;

use crate::error::{CliError, Result};
use crate::writer::check_not_lock;

/// Maximum length of the text of metrics, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Maximum time to wait for an answer from the HTTP server.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The file or address that the metrics are read from, and the label of the database whose metrics
/// are shown.
pub struct MetricsSource {
    place: MetricsPlace,
    label: Option<(String, String)>,
}

enum MetricsPlace {
    File(PathBuf),
    Url(String),
}

impl MetricsSource {
    /// Creates a source from the path of a file, or from an address that begins with `http://`.
    pub fn new(place: &str, label: Option<&str>) -> Result<MetricsSource> {
        let place = match place.starts_with("http://") {
            true => MetricsPlace::Url(place.to_string()),
            false => {
                check_not_lock(Path::new(place))?;
                MetricsPlace::File(place.into())
            }
        };
        let label = label.map(parsed_label).transpose()?;
        Ok(MetricsSource { place, label })
    }

    /// Reads the current metrics of the database.
    pub fn read(&self) -> Result<Metrics> {
        Metrics::parse(&self.text()?, self.label.as_ref())
            .map_err(|what| CliError::Usage(format!("{}: {what}", self.name())))
    }

    fn name(&self) -> String {
        match &self.place {
            MetricsPlace::File(path) => path.display().to_string(),
            MetricsPlace::Url(url) => url.clone(),
        }
    }

    fn text(&self) -> Result<String> {
        let failed = |source| CliError::Io { op: "read", name: self.name(), source };
        let mut text = Vec::new();
        match &self.place {
            MetricsPlace::File(path) => {
                let file = std::fs::File::open(path).map_err(failed)?;
                file.take(MAX_TEXT_BYTES).read_to_end(&mut text).map_err(failed)?;
            }
            MetricsPlace::Url(url) => {
                let request = minreq::get(url).with_timeout(TIMEOUT.as_secs());
                let answer = request.send_lazy().map_err(|e| failed(io::Error::other(e)))?;
                if answer.status_code != 200 {
                    let status = format!("{} {}", answer.status_code, answer.reason_phrase);
                    return Err(failed(io::Error::other(status)));
                }
                answer.take(MAX_TEXT_BYTES).read_to_end(&mut text).map_err(failed)?;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Parses the argument of `--label`.
fn parsed_label(label: &str) -> Result<(String, String)> {
    let (name, value) = label.split_once('=').ok_or_else(|| {
        CliError::Usage(format!("--label {label}: a label is NAME=VALUE, as in db=users"))
    })?;
    Ok((name.to_string(), value.to_string()))
}
