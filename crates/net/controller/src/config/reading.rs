//! Reads the file and the variables, and finds all that is wrong with them at once.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use nlog_data::quotation::cut;
use openflow_rs::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::contradictions::contradictions;
use super::{Config, Effective, KEYS, Origin};

/// The prefix of the variables. What follows is the key, in capitals: `WEFT_CONFIG_LOG`.
pub const VARIABLE: &str = "WEFT_CONFIG_";

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Values are invalid: all that are, in the order of the file. At least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Content(Vec<Fault>),
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    place: Place,
    message: String,
}

/// The place of a fault. Faults are listed in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In the file, with line and column from 1; columns count Unicode scalar values.
    File { line: usize, column: usize, path: PathBuf },
    /// A variable of the environment.
    Variable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Place::Variable(name) => f.write_str(name),
        }?;
        write!(f, ": {}", self.message)
    }
}

impl Config {
    /// Reads a file, and the variables of the environment that override it ([`VARIABLE`]).
    ///
    /// # Errors
    /// The file cannot be read, or values are invalid.
    pub fn load(
        path: &Path,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Effective, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let mut reading =
            Reading { path, text: &text, config: Config::default(), set: Vec::new(), faults: Vec::new() };
        reading.file();
        reading.variables(variables);
        reading.end()
    }
}

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    config: Config,
    /// The keys that are set, and where.
    set: Vec<(String, Place)>,
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn file(&mut self) {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            self.fault(self.at(error.span()), error.message());
        }
        for (key, value) in table.into_inner() {
            let (name, value_at) = (key.get_ref().to_string(), value.span());
            if is_key(&name) {
                self.set_in_file(&name, value, value_at);
            } else {
                self.unknown(self.at(Some(key.span())), &name);
            }
        }
    }

    fn set_in_file(&mut self, name: &str, value: Spanned<DeValue<'_>>, at: Range<usize>) {
        let set = self.config.set(name, ValueDeserializer::from(value));
        match set {
            Some(Err(error)) => self.fault(self.at(error.span().or(Some(at))), error.message()),
            _ => self.set.push((name.to_owned(), self.at(Some(at)))),
        }
    }

    fn variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut variables: Vec<(OsString, OsString)> = variables.into_iter().collect();
        variables.sort();
        for (variable, value) in variables {
            let Some(variable) = variable.to_str() else { continue };
            let Some(key) = variable.strip_prefix(VARIABLE) else { continue };
            let (name, place) = (key.to_lowercase(), Place::Variable(variable.to_owned()));
            let Some(value) = value.to_str() else {
                self.fault(place, "its value is not UTF-8");
                continue;
            };
            if !is_key(&name) {
                self.unknown(place, &name);
            } else if let Err(why) = self.set_by_variable(&name, value) {
                self.fault(place, &why);
            } else {
                self.set.push((name, place));
            }
        }
    }

    /// Sets a key to a text: a value of TOML, or a string without its quotes.
    fn set_by_variable(&mut self, name: &str, value: &str) -> Result<(), String> {
        let typed = ValueDeserializer::parse(value).ok().and_then(|value| self.config.set(name, value));
        if let Some(Ok(())) = typed {
            return Ok(());
        }
        let quoted = toml::Value::String(value.to_owned()).to_string();
        let text = ValueDeserializer::parse(&quoted).map_err(|error| error.message().to_owned())?;
        match (self.config.set(name, text), typed) {
            (Some(Err(_)), Some(Err(error))) | (Some(Err(error)), _) => Err(error.message().to_owned()),
            _ => Ok(()),
        }
    }

    fn unknown(&mut self, place: Place, name: &str) {
        let hint = match nearest(name, KEYS.iter().map(|key| key.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`weft controller --print-config` prints all keys".to_owned(),
        };
        self.fault(place, &format!("unknown key `{name}`; {hint}"));
    }

    /// The place of some bytes of the file; its beginning if they are not known.
    fn at(&self, span: Option<Range<usize>>) -> Place {
        let start = span.map_or(0, |span| span.start);
        let before = self.text.get(..start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place::File {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }

    fn fault(&mut self, place: Place, message: &str) {
        self.faults.push(Fault { place, message: cut(message).into_owned() });
    }

    /// Where a key is set at last.
    fn place(&self, name: &str) -> Option<&Place> {
        self.set.iter().rev().find(|(key, _)| key == name).map(|(_, place)| place)
    }

    fn end(mut self) -> Result<Effective, ConfigError> {
        // A faulty value counts as not set, and would seem to be missing.
        if self.faults.is_empty() {
            for (key, message) in contradictions(&self.config) {
                let place = self.place(key).cloned().unwrap_or_else(|| self.at(None));
                self.faults.push(Fault { place, message });
            }
        }
        if !self.faults.is_empty() {
            self.faults.sort_by(|one, other| one.place.cmp(&other.place));
            return Err(ConfigError::Content(self.faults));
        }
        let origin = |name: &str| match self.place(name) {
            Some(Place::File { path, line, .. }) => Origin::File(path.clone(), *line),
            Some(Place::Variable(name)) => Origin::Variable(name.clone()),
            None => Origin::Default,
        };
        let origins = KEYS.iter().map(|key| origin(key.name)).collect();
        let folder = self.path.parent().unwrap_or(Path::new(""));
        Ok(Effective { config: self.config.beside(folder), path: self.path.to_owned(), origins })
    }
}

impl Config {
    /// The same, with relative paths counted from a folder.
    fn beside(mut self, folder: &Path) -> Config {
        self.state = folder.join(&self.state);
        self.rules = self.rules.beside(folder);
        let Config { tls_certificate, tls_key, tls_authorities, tls_revoked, tokens, .. } = &mut self;
        let files = [tls_certificate, tls_key, tls_authorities, tls_revoked, tokens];
        for file in files.into_iter().flatten() {
            *file = folder.join(&*file);
        }
        self
    }
}

fn is_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name)
}
