//! Which controller a command asks: names for several controllers, in a file of the user.
//!
//! In order: `--controller`, `WEFT_CONTROLLER`, `--context`, `WEFT_CONTEXT`, the `current` context of the file, the usual socket: that of the
//! user, or else that of the service.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use controller::Listen;
use weft_client::{CertificateFiles, CredentialFiles as Files, Credentials, Identification};
use weft_core::shown;

use crate::exit::{Failure, say};

mod command;
mod file;

pub(crate) use command::ContextCommand;
pub(crate) use file::ContextFile;
use file::Target;

/// The environment variable with the address of the controller.
pub(crate) const ADDRESS_VARIABLE: &str = "WEFT_CONTROLLER";
/// Those with the files of the certificate that is shown at an `https:` address: itself, its key, and the authorities that are trusted.
const CERTIFICATE_VARIABLES: [&str; 3] = ["WEFT_CERTIFICATE", "WEFT_KEY", "WEFT_AUTHORITIES"];
/// The one with a token, which is sent with each request.
const TOKEN_VARIABLE: &str = "WEFT_TOKEN";
/// The one with the name of a context.
const NAME_VARIABLE: &str = "WEFT_CONTEXT";

/// The socket of the service that the Debian package starts, which admits root and a group.
const SERVICE: &str = "/run/weft/weft.sock";

/// The context that is named before the command: `weft --context NAME get`.
static BEFORE_COMMAND: OnceLock<String> = OnceLock::new();

/// Remembers the context that is named before the command.
pub(crate) fn name_before_command(name: String) {
    // It is called once, before anything asks.
    let _is_first = BEFORE_COMMAND.set(name);
}

/// A controller, and why it is this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) address: String,
    /// Who is to be known there.
    identity: Identity,
    /// The context with this address.
    pub(crate) context: Option<String>,
    pub(crate) by: Chooser,
}

impl Choice {
    /// What is shown there: the contents of its files.
    pub(crate) fn identification(&self) -> Result<Identification, Failure> {
        let Identity { files, token } = self.identity.clone();
        let credentials = files.map(Credentials::load).transpose();
        let credentials = credentials.map_err(|error| Failure::Outside(error.to_string()))?;
        let token = match token {
            None => None,
            Some(Token::Variable) => env::var(TOKEN_VARIABLE).ok(),
            Some(Token::File(path)) => {
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| {
                    Failure::outside(format!("cannot read the token in {}", path.display()), error)
                })?;
                Some(text.trim().to_owned())
            }
        };
        Ok(Identification { credentials, token })
    }
}

/// Where the certificate and the token of somebody are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Identity {
    files: Option<Files>,
    token: Option<Token>,
}

/// Where a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// In [`TOKEN_VARIABLE`].
    Variable,
    /// In a file.
    File(PathBuf),
}

impl Identity {
    /// The one that the environment names.
    fn of_environment() -> Result<Identity, Failure> {
        let token = env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty()).map(|_| Token::Variable);
        Ok(Identity { files: files_of_environment(token.is_some())?, token })
    }
}

/// The files of the certificate that the environment names. With a token, those of authorities suffice.
fn files_of_environment(has_token: bool) -> Result<Option<Files>, Failure> {
    let files = CERTIFICATE_VARIABLES.map(|name| env::var_os(name).filter(|value| !value.is_empty()));
    match files.clone().map(|file| file.map(PathBuf::from)) {
        [None, None, None] => Ok(None),
        [Some(certificate), Some(key), Some(authorities)] => {
            Ok(Some(Files { own: Some(CertificateFiles { certificate, key }), authorities, revoked: None }))
        }
        [None, None, Some(authorities)] if has_token => {
            Ok(Some(Files { own: None, authorities, revoked: None }))
        }
        _ => {
            let missing = CERTIFICATE_VARIABLES.iter().zip(&files).find(|(_, file)| file.is_none());
            let missing = missing.map(|(name, _)| *name).unwrap_or_default();
            Err(Failure::Usage(format!(
                "{missing} is not set; a certificate, its key and authorities belong together: {}",
                CERTIFICATE_VARIABLES.join(", ")
            )))
        }
    }
}

/// What decides which controller is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chooser {
    AddressOption,
    AddressVariable,
    ContextOption,
    ContextVariable,
    Current,
    Usual,
}

impl fmt::Display for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Chooser::AddressOption => "--controller",
            Chooser::AddressVariable => ADDRESS_VARIABLE,
            Chooser::ContextOption => "--context",
            Chooser::ContextVariable => NAME_VARIABLE,
            Chooser::Current => "current",
            Chooser::Usual => "default",
        })
    }
}

/// The usual socket: that of the user's own controller, or where there is none, that of the system's service. A user who may not look into
/// the folder of the service hears that it denies permission.
fn usual() -> Listen {
    let own = Listen::default();
    match &own {
        Listen::Unix(socket) if !socket.exists() && Path::new(SERVICE).try_exists().unwrap_or(true) => {
            Listen::Unix(SERVICE.into())
        }
        _ => own,
    }
}

/// The controller that is meant by these values of `--controller`, or its variable, and `--context`.
pub(crate) fn choose(address: Option<&str>, context: Option<&str>) -> Result<Choice, Failure> {
    let named = context.or_else(|| BEFORE_COMMAND.get().map(String::as_str));
    let given = address.map(str::to_owned).or_else(|| env::var(ADDRESS_VARIABLE).ok());
    if let Some(address) = given {
        let is_variable = env::var(ADDRESS_VARIABLE).is_ok_and(|variable| variable == address);
        let by = if is_variable { Chooser::AddressVariable } else { Chooser::AddressOption };
        if let Some(name) = named {
            // Without a word, a change would go to another network than the one that is named.
            say(format_args!(
                "warning: --context {} has no effect: {by} goes before it, with {address}",
                shown(name)
            ));
        }
        return Ok(Choice { address, identity: Identity::of_environment()?, context: None, by });
    }
    let variable = env::var(NAME_VARIABLE).ok().filter(|name| !name.is_empty());
    let (name, by) = match (named, variable) {
        (Some(name), _) => (Some(name.to_owned()), Chooser::ContextOption),
        (None, Some(name)) => (Some(name), Chooser::ContextVariable),
        (None, None) => (None, Chooser::Current),
    };
    let file = ContextFile::read()?;
    let found = match &name {
        Some(name) => Some((name.clone(), file.target(name, by)?)),
        None => file.current()?,
    };
    let Some((name, Target { address, identity })) = found else {
        let address = usual().to_string();
        return Ok(Choice { address, identity: Identity::default(), context: None, by: Chooser::Usual });
    };
    let identity = if identity == Identity::default() { Identity::of_environment()? } else { identity };
    Ok(Choice { address, identity, context: Some(name), by })
}
