//! The file of contexts.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use nlog_data::quotation::{cut, quote_text};
use openflow_rs::nearest;
use serde::Deserialize;
use tempfile::NamedTempFile;
use toml::Spanned;
use toml_edit::{DocumentMut, Item, Value};
use weft_client::{CertificateFiles, Client, CredentialFiles as Files};

use super::{Chooser, Identity, Token};
use crate::exit::Failure;

/// The file of contexts, as it was read. One that does not exist has none.
#[derive(Debug)]
pub(crate) struct ContextFile {
    /// Where it is, or would be. None if there is no folder of a user.
    path: Option<PathBuf>,
    text: String,
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    current: Option<Spanned<String>>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    address: Spanned<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
    token_file: Option<PathBuf>,
}

/// Where a controller is, and who is to be known there.
pub(super) struct Target {
    pub(super) address: String,
    pub(super) identity: Identity,
}

impl Context {
    /// What is missing beside what it names.
    fn fault(&self) -> Option<&'static str> {
        let Context { certificate, key, authorities, token_file, .. } = self;
        match [certificate, key, authorities].map(Option::is_some) {
            [false, false, false] | [true, true, true] => None,
            [false, false, true] if token_file.is_some() => None,
            [false, false, true] => Some("`authorities` needs `certificate` and `key`, or `token_file`"),
            _ => Some("`certificate`, `key` and `authorities` belong together; name all three"),
        }
    }
}

impl ContextFile {
    /// Reads the file.
    pub(crate) fn read() -> Result<ContextFile, Failure> {
        let Some(path) = place() else {
            return Ok(ContextFile { path: None, text: String::new(), content: Content::default() });
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::outside(format!("cannot read {}", path.display()), error)),
        };
        let mut file = ContextFile { path: Some(path), text, content: Content::default() };
        file.content = toml::from_str(&file.text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let message = cut(error.message());
            file.fault(start, &format!("{message}; `weft context --help` shows what can be in this file"))
        })?;
        for context in file.content.contexts.values() {
            let address = &context.address;
            Client::check_address(address.get_ref())
                .map_err(|error| file.fault(address.span().start, &error.to_string()))?;
            if let Some(message) = context.fault() {
                return Err(file.fault(address.span().start, message));
            }
        }
        Ok(file)
    }

    /// The name of the file, for people.
    pub(super) fn name(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "$HOME/.config/weft/config.toml".to_owned(), |path| path.display().to_string())
    }

    /// The contexts: names and addresses.
    pub(crate) fn contexts(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.content
            .contexts
            .iter()
            .map(|(name, context)| (name.as_str(), context.address.get_ref().as_str()))
    }

    /// The name of the current context, which may not exist.
    pub(super) fn current_name(&self) -> Option<&str> {
        self.content.current.as_ref().map(|name| name.get_ref().as_str())
    }

    /// What a context names. Relative paths count from the folder of the file.
    fn found(&self, name: &str) -> Option<Target> {
        let Context { address, certificate, key, authorities, token_file } =
            self.content.contexts.get(name)?;
        let folder = self.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let beside = |file: &Option<PathBuf>| file.as_ref().map(|file| folder.join(file));
        let own = beside(certificate).zip(beside(key));
        let own = own.map(|(certificate, key)| CertificateFiles { certificate, key });
        let files = beside(authorities).map(|authorities| Files { own, authorities, revoked: None });
        let identity = Identity { files, token: beside(token_file).map(Token::File) };
        Some(Target { address: address.get_ref().clone(), identity })
    }

    /// The current context.
    pub(super) fn current(&self) -> Result<Option<(String, Target)>, Failure> {
        let Some(current) = &self.content.current else { return Ok(None) };
        let name = current.get_ref();
        self.found(name).map(|target| Some((name.clone(), target))).ok_or_else(|| {
            let unknown = self.unknown(name);
            self.fault(
                current.span().start,
                &format!("{unknown}; `weft context use NAME` chooses another one"),
            )
        })
    }

    /// A context, which this names.
    pub(super) fn target(&self, name: &str, by: Chooser) -> Result<Target, Failure> {
        self.found(name).ok_or_else(|| Failure::Rejected(format!("{by}: {}", self.unknown_here(name))))
    }

    /// Makes a context the current one. Comments and the order of the file stay.
    pub(super) fn choose(&self, name: &str) -> Result<String, Failure> {
        let found = self.found(name).ok_or_else(|| Failure::Rejected(self.unknown_here(name)))?;
        if self.current_name() != Some(name) {
            let text = with_current(&self.text, name)
                .map_err(|error| Failure::Rejected(format!("{}: {error}", self.name())))?;
            let written = self.path.as_deref().map_or(Ok(()), |path| replace(path, &text));
            written.map_err(|error| Failure::outside(format!("cannot write {}", self.name()), error))?;
        }
        Ok(found.address)
    }

    fn unknown_here(&self, name: &str) -> String {
        format!("{}: {}", self.name(), self.unknown(name))
    }

    /// What is said of a context that is not there.
    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.content.contexts.keys().map(String::as_str).collect();
        let hint = match nearest(name, known.iter().copied()) {
            _ if known.is_empty() => {
                "the file has none; `weft context --help` shows how to write one".to_owned()
            }
            Some(near) => format!("did you mean `{near}`? There are {}", known.join(", ")),
            None => format!("there are {}", known.join(", ")),
        };
        format!("there is no context {}; {hint}", quote_text(name))
    }

    fn fault(&self, start: usize, message: &str) -> Failure {
        let before = self.text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Failure::Rejected(format!("{}:{line}:{column}: {message}", self.name()))
    }
}

/// Where the file is: `WEFT_CONFIG`, or else in the user's folder of configurations.
fn place() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable("WEFT_CONFIG") {
        return Some(path);
    }
    // The specification of these folders says that a relative one is to be ignored.
    let folder = variable("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(folder.join("weft/config.toml"))
}

/// The text with another current context.
fn with_current(text: &str, name: &str) -> Result<String, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    match document.get_mut("current") {
        // What stands around the value, such as a comment after it, stays.
        Some(Item::Value(current)) => {
            let around = current.decor().clone();
            *current = Value::from(name);
            *current.decor_mut() = around;
        }
        _ => document["current"] = toml_edit::value(name),
    }
    Ok(document.to_string())
}

/// Replaces the content of a file as a whole. Its permissions stay, and a link to it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(path)?;
    let permissions = fs::metadata(&path)?.permissions();
    let mut new = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(permissions)?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_order_of_a_file_stay() {
        let text = "# Networks of the institute.\n\ncurrent   =  'lab' # for now\n\n# Ask Ada first!\n[contexts.prod]\n\
                    address = \"10.0.0.7:6657\"   # by VPN\n\n[contexts.lab]\naddress = 'unix:/run/weft/weft.sock'\n";
        let changed = with_current(text, "prod").unwrap();
        assert_eq!(changed, text.replace("'lab'", "\"prod\""));
        assert_eq!(with_current(&changed, "lab").unwrap(), text.replace("'lab'", "\"lab\""));
    }

    #[test]
    fn a_first_current_context_comes_before_the_contexts() {
        let text = "[contexts.a]\naddress = \"10.0.0.7:6657\" # here\n";
        assert_eq!(with_current(text, "a").unwrap(), format!("current = \"a\"\n{text}"));
        let inline = "contexts = {a = {address = \"10.0.0.7:6657\"}}\n";
        assert_eq!(with_current(inline, "a").unwrap(), format!("{inline}current = \"a\"\n"));
    }
}
