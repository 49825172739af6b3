//! Reads the entries of a database in key order or, with `--comparator ignore`, in the order in
//! which they are in the files.

use crate::args::Global;
use crate::error::Result;
use crate::files::Survey;
use crate::keyspace::{InKeyspace, Source};
use crate::writer::Writer;

pub enum Entries {
    InOrder(Source),
    AsInFiles(Survey),
}

impl Entries {
    pub fn open(global: &Global, keyspace: &InKeyspace) -> Result<Entries> {
        let name = keyspace.name(global)?;
        if !global.ignores_comparator() {
            return Ok(Entries::InOrder(name.of_reader(super::open_read_only(global)?)?));
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
