//! Which controller a command asks: names for several controllers, in a file of the user.
//!
//! In order: `--controller`, `WEFT_CONTROLLER`, `--context`, `WEFT_CONTEXT`, the `current` context of the file, the usual socket.

use std::env;
use std::fmt;
use std::sync::OnceLock;

use controller::Listen;
use weft_core::shown;

use crate::exit::{Failure, say};

mod command;
mod file;

pub(crate) use command::ContextCommand;
pub(crate) use file::ContextFile;

/// The environment variable with the address of the controller.
pub(crate) const ADDRESS_VARIABLE: &str = "WEFT_CONTROLLER";
/// The one with the name of a context.
const NAME_VARIABLE: &str = "WEFT_CONTEXT";

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
    /// The context with this address.
    pub(crate) context: Option<String>,
    pub(crate) by: Chooser,
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
        return Ok(Choice { address, context: None, by });
    }
    let variable = env::var(NAME_VARIABLE).ok().filter(|name| !name.is_empty());
    let (name, by) = match (named, variable) {
        (Some(name), _) => (Some(name.to_owned()), Chooser::ContextOption),
        (None, Some(name)) => (Some(name), Chooser::ContextVariable),
        (None, None) => (None, Chooser::Current),
    };
    let file = ContextFile::read()?;
    let found = match &name {
        Some(name) => Some((name.clone(), file.address(name, by)?)),
        None => file.current()?,
    };
    Ok(match found {
        Some((name, address)) => Choice { address, context: Some(name), by },
        None => Choice { address: Listen::default().to_string(), context: None, by: Chooser::Usual },
    })
}
