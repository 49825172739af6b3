//! Reads the entries of a database in key order or, with `--comparator ignore`, in the order in
//! which they are in the files.

use crate::args::Global;
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::files::Survey;
use crate::keyspace::{InKeyspace, ReadScope};
use crate::writer::Writer;

/// The option to print JSON values as JSON.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JsonValues {
    /// With --format json, print values that are JSON as such, and not as strings
    ///
    /// `load` reads the same bytes from them. JSON strings are printed like other text, and so are
    /// values with line ends or blanks around them.
    #[arg(long)]
    json_values: bool,
}

impl JsonValues {
    /// Returns whether the option was given. Returns an error if the format is not JSON.
    pub fn check(&self, global: &Global) -> Result<bool> {
        if self.json_values && global.format() != Format::Json {
            return Err(CliError::Usage("--json-values needs --format json".to_string()));
        }
        Ok(self.json_values)
    }
}

pub enum Entries {
    InOrder(ReadScope),
    AsInFiles(Survey),
}

impl Entries {
    pub fn open(global: &Global, keyspace: &InKeyspace) -> Result<Entries> {
        let name = keyspace.name(global)?;
        if !global.ignores_comparator() {
            return Ok(Entries::InOrder(name.of_reader(super::open_for_reads(global)?)?));
        }
        let dir = global.db()?;
        let survey = Survey::of(&dir, true)?;
        survey.say_damage();
        if let Some(writer) = Writer::of(&dir) {
            writer.say(&dir);
        }
        Ok(Entries::AsInFiles(survey))
    }

    /// Visits every key and value until `visit` returns false.
    pub fn each(&self, visit: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        match self {
            Entries::AsInFiles(survey) => survey.each_entry(visit),
            Entries::InOrder(source) => source.each(visit),
        }
    }
}
