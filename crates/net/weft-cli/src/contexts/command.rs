//! `weft context`: lists the contexts, chooses one, and says which controller commands ask.

use clap::{Args, Subcommand};
use serde_json::json;
use weft_core::shown;

use super::{Chooser, ContextFile, choose};
use crate::client::Address;
use crate::exit::{Failure, print_as, say};

/// Arguments of `weft context`.
#[derive(Args)]
#[command(
    after_help = "Contexts are names for controllers, in ~/.config/weft/config.toml (XDG_CONFIG_HOME counts), or in\n\
        the file that WEFT_CONFIG names. You write this file:\n    \
        current = \"prod\"\n    \
        [contexts.prod]\n    \
        address = \"unix:/run/weft/weft.sock\"\n    \
        [contexts.lab]\n    \
        address = \"https://10.0.0.7:6657\"\n    \
        certificate = \"alice.pem\"   # with `key` and `authorities`, files beside this one\n    \
        key = \"alice.key\"\n    \
        authorities = \"ca.pem\"\n\n\
        At an address with https, a certificate is shown: that of the context, or of WEFT_CERTIFICATE,\n\
        WEFT_KEY and WEFT_AUTHORITIES. A token is sent with each request: that in the file `token_file` of\n\
        the context, or in WEFT_TOKEN. It needs `authorities` alone.\n\n\
        Commands ask the first of: --controller, WEFT_CONTROLLER, --context, WEFT_CONTEXT, the current\n\
        context, the usual socket. `weft --context lab get switch` is `weft get --context lab switch`."
)]
pub(crate) struct ContextCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the contexts; the current one has a star
    List(List),
    /// Make a context the current one
    Use(Use),
    /// Show which controller commands ask, and why this one
    Show(Show),
}

/// Arguments of `weft context list`.
#[derive(Args)]
struct List {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Arguments of `weft context use`.
#[derive(Args)]
#[command(
    after_help = "Comments and the order of the file stay. WEFT_CONTEXT and --context go before the current context."
)]
struct Use {
    /// The name of a context
    name: String,
}

/// Arguments of `weft context show`.
#[derive(Args)]
struct Show {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl ContextCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::List(list) => list.run(),
            Command::Use(chosen) => chosen.run(),
            Command::Show(show) => show.run(),
        }
    }
}

impl List {
    fn run(&self) -> Result<(), Failure> {
        let file = ContextFile::read()?;
        let current = file.current_name();
        let width = file.contexts().map(|(name, _)| shown(name).chars().count()).max().unwrap_or_default();
        let line = |(name, address): (&str, &str)| {
            let is_current = current == Some(name);
            if self.json {
                return json!({"name": name, "address": address, "current": is_current}).to_string() + "\n";
            }
            let mark = if is_current { '*' } else { ' ' };
            format!("{mark} {:width$}  {}\n", shown(name), shown(address))
        };
        print_as(self.json, &file.contexts().map(line).collect::<String>())?;
        if file.contexts().len() == 0 {
            say(format_args!(
                "{} has no contexts; `weft context --help` shows how to write one",
                file.name()
            ));
        }
        Ok(())
    }
}

impl Use {
    fn run(&self) -> Result<(), Failure> {
        let address = ContextFile::read()?.choose(&self.name)?;
        say(format_args!("commands now ask {}, at {}", shown(&self.name), shown(&address)));
        // What the environment says goes before that.
        let choice = choose(None, None)?;
        if choice.by != Chooser::Current {
            say(format_args!("warning: but {} is set, so they ask {}", choice.by, shown(&choice.address)));
        }
        Ok(())
    }
}

impl Show {
    fn run(&self) -> Result<(), Failure> {
        let choice = self.address.choice()?;
        let by = match choice.by {
            Chooser::Current => format!("current in {}", ContextFile::read()?.name()),
            Chooser::Usual => "the usual socket".to_owned(),
            by => format!("by {by}"),
        };
        let text = match (&choice.context, self.json) {
            (context, true) => {
                json!({"context": context, "address": choice.address, "by": choice.by.to_string()})
                    .to_string()
            }
            (Some(context), false) => format!("{}: {} ({by})", shown(context), shown(&choice.address)),
            (None, false) => format!("{} ({by})", shown(&choice.address)),
        };
        print_as(self.json, &(text + "\n"))
    }
}
