//! `weft completions`: completion of commands, options, files, kinds and ids in shells.
//!
//! The scripts know nothing: they ask `weft complete`, which `--help` does not show. It prints one candidate per line,
//! with its description after a tab, and then `:files` where a file is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Command, CommandFactory as _, ValueEnum};
use controller::pb::Listing;
use serde_json::{Map, Value as Json};
use weft_core::builtin;

use crate::client::ask;
use crate::contexts::ContextFile;
use crate::exit::Failure;
use crate::fields;
use crate::listing::summary;
use crate::schema::built_in;

mod wanted;

use wanted::{Conditions, Wanted};

/// How long a shell waits for the controller.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// Arguments of `weft completions`.
#[derive(Args)]
#[command(after_help = "To enable completion in the current shell:\n  \
        bash:  source <(weft completions bash)\n  \
        zsh:   source <(weft completions zsh)\n  \
        fish:  weft completions fish | source\n\n\
        The shell then completes commands, options, files, kinds and ids. It asks the running controller for\n\
        kinds and ids; without one, it completes the kinds of the built-in rules.")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// A shell.
#[derive(ValueEnum, Clone, Copy)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        print(match self.shell {
            Shell::Bash => include_str!("completions/weft.bash"),
            Shell::Zsh => include_str!("completions/weft.zsh"),
            Shell::Fish => include_str!("completions/weft.fish"),
        })
    }
}

/// Arguments of `weft complete`.
#[derive(Args)]
pub(crate) struct Complete {
    /// The words after `weft`; the last one, which can be empty, is to be completed
    #[arg(last = true)]
    words: Vec<String>,
}

/// A value, and its description.
type Candidate = (String, String);

impl Complete {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut root = crate::Arguments::command();
        root.build();
        let (wanted, typed) = Wanted::of(&root, &self.words);
        let line = |(value, about): Candidate| format!("{value}\t{about}\n");
        let fits = candidates(&wanted, typed).into_iter().filter(|(value, _)| value.starts_with(typed));
        let files = if matches!(wanted, Wanted::Files | Wanted::Programs) { ":files\n" } else { "" };
        print(&(fits.map(line).collect::<String>() + files))
    }
}

/// The candidates besides files, for the part of the word that is typed.
fn candidates(wanted: &Wanted, typed: &str) -> Vec<Candidate> {
    match wanted {
        Wanted::Nothing | Wanted::Files => Vec::new(),
        Wanted::Programs => vec![(builtin::NAME.to_owned(), "The built-in rules".to_owned())],
        Wanted::Commands(command) => subcommands(command),
        Wanted::Options(command) => options(command),
        Wanted::Values(values, prefix) => {
            values.iter().map(|(value, about)| (format!("{prefix}{value}"), about.clone())).collect()
        }
        Wanted::FieldPaths { address } if typed.contains('.') => fields::paths(address.as_deref(), typed),
        Wanted::FieldPaths { address } => kinds(address.as_deref(), false),
        Wanted::Contexts(prefix) => contexts(prefix),
        Wanted::Kinds { address, flows } => kinds(address.as_deref(), *flows),
        Wanted::Ids { address, kind } => ids(address.as_deref(), kind),
        Wanted::Conditions { address, kind, of, prefix } => {
            let found = conditions(address.as_deref(), kind, *of).into_iter();
            found.map(|condition| (format!("{prefix}{condition}"), String::new())).collect()
        }
    }
}

/// The contexts of the user, with their addresses.
fn contexts(prefix: &str) -> Vec<Candidate> {
    let file = ContextFile::read().ok();
    let all = file.iter().flat_map(ContextFile::contexts);
    all.map(|(name, address)| (format!("{prefix}{name}"), address.to_owned())).collect()
}

fn subcommands(command: &Command) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|command| (command.get_name().to_owned(), about(command))).collect()
}

fn options(command: &Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|option| !option.is_hide_set());
    let long = shown.filter_map(|option| Some((format!("--{}", option.get_long()?), option)));
    long.map(|(long, option)| (long, option.get_help().map(ToString::to_string).unwrap_or_default()))
        .collect()
}

/// The kinds of the controller, or else of the built-in rules.
fn kinds(address: Option<&str>, with_flows: bool) -> Vec<Candidate> {
    let built_in = built_in().ok();
    let about = |name: &str| {
        let kind = built_in.as_ref().and_then(|kinds| kinds.get(name));
        kind.map(|kind| kind.summary()).unwrap_or_default()
    };
    let asked = ask(address, PATIENCE, |mut client| async move { client.status().await.ok() });
    let names: Vec<String> = match asked {
        Some(status) => status.objects.into_keys().collect::<BTreeSet<_>>().into_iter().collect(),
        None => built_in.iter().flat_map(|kinds| kinds.names().map(str::to_owned)).collect(),
    };
    let mut found: Vec<Candidate> = names.into_iter().map(|name| (name.clone(), about(&name))).collect();
    if with_flows {
        found.push(("all".to_owned(), "The objects of all kinds".to_owned()));
        found.push(("status".to_owned(), "The controller and its switches".to_owned()));
        found.push(("flows".to_owned(), "The flows, groups and ports of a transport node".to_owned()));
        found.push((
            "logical-flows".to_owned(),
            "The flows of a logical switch, before they are placed on hosts".to_owned(),
        ));
        found.push(("tunnels".to_owned(), "What was measured of the tunnels between hosts".to_owned()));
        found.push(("listings".to_owned(), "The listings and counters that the rules declare".to_owned()));
        let listings = ask(address, PATIENCE, |mut client| async move { client.listings().await.ok() });
        let listing = |listing: Listing| (listing.name.clone(), summary(&listing));
        found.extend(listings.unwrap_or_default().into_iter().map(listing));
    }
    found
}

/// The ids of a kind, or of the objects that the other things belong to; none without a controller.
fn ids(address: Option<&str>, kind: &str) -> Vec<Candidate> {
    let of_hosts = matches!(kind, "flows" | "status" | "tunnels");
    let name = kind.replace('_', "-");
    let kind = if kind == "logical-flows" { "switch" } else { kind }.to_owned();
    let found = ask(address, PATIENCE, |mut client| async move {
        if of_hosts {
            let status = client.status().await.ok()?;
            return Some(status.switches.into_iter().map(|switch| switch.node).collect());
        }
        let listings = client.listings().await.unwrap_or_default();
        let listing = listings.into_iter().find(|listing| listing.name == name);
        let kinds = listing.map_or_else(|| vec![kind], |listing| listing.kinds);
        let mut objects = Vec::new();
        for kind in kinds {
            objects.extend(client.get_with_states(&kind, None).await.ok()?);
        }
        let id = |object: &str| -> Option<String> {
            let members: BTreeMap<String, Json> = serde_json::from_str(object).ok()?;
            Some(members.get("id")?.as_str()?.to_owned())
        };
        Some(objects.iter().filter_map(|(object, _)| id(object)).collect::<Vec<_>>())
    });
    found.unwrap_or_default().into_iter().map(|id| (id, String::new())).collect()
}

/// The labels that objects of a kind have, or the fields of which each can be a condition; none without a controller.
fn conditions(address: Option<&str>, kind: &str, of: Conditions) -> BTreeSet<String> {
    let kind = kind.to_owned();
    let found =
        ask(address, PATIENCE, |mut client| async move { client.get_with_states(&kind, None).await.ok() });
    let mut conditions = BTreeSet::new();
    for (object, state) in found.unwrap_or_default() {
        let members: Map<String, Json> = serde_json::from_str(&object).unwrap_or_default();
        if of == Conditions::Labels {
            let labels = members.get("labels").and_then(Json::as_object).into_iter().flatten();
            conditions
                .extend(labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())));
            continue;
        }
        let fields = members.keys().filter(|name| !matches!(name.as_str(), "kind" | "id" | "labels"));
        conditions.extend(fields.map(|name| format!("{name}=")));
        let columns: Map<String, Json> = serde_json::from_str(&state.columns).unwrap_or_default();
        conditions.extend(columns.keys().map(|name| format!("state.{name}=")));
    }
    conditions
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}
