//! What the last word of a command line can be.

use clap::{Arg, Command, ValueHint};

use crate::contexts::ContextFile;

/// What a word can be.
pub(super) enum Wanted<'a> {
    /// Nothing is known of it.
    Nothing,
    /// A command of this one.
    Commands(&'a Command),
    /// An option of this command.
    Options(&'a Command),
    /// A value, with its description, after this text.
    Values(Vec<(String, String)>, String),
    /// The path of a file or a folder.
    Files,
    /// The same, or the built-in rules.
    Programs,
    /// The name of a context, after this text.
    Contexts(String),
    /// A kind of objects of the controller at this address; with `flows`, also the other things that `weft get` prints.
    Kinds { address: Option<String>, flows: bool },
    /// A kind, or a field of it with dots.
    FieldPaths { address: Option<String> },
    /// The id of an object of this kind.
    Ids { address: Option<String>, kind: String },
    /// A condition on objects of this kind: on their labels, or on their fields and what rules say of them. It comes after this text.
    Conditions { address: Option<String>, kind: String, of: Conditions, prefix: String },
}

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditions {
    Labels,
    Fields,
}

/// The words before the last one, as understood so far.
struct Before<'a> {
    command: &'a Command,
    /// The option whose value comes next.
    option: Option<&'a Arg>,
    /// The values of positional arguments.
    positional: Vec<&'a str>,
    /// The address of the controller, and the context.
    address: Option<String>,
    context: Option<String>,
    /// Whether `--` was given, after which no word is an option.
    is_ended: bool,
}

impl<'a> Wanted<'a> {
    /// What the last of the words can be, and the part of it that is typed already.
    pub(super) fn of(root: &'a Command, words: &'a [String]) -> (Self, &'a str) {
        let (last, words) = words.split_last().map_or(("", &[][..]), |(last, words)| (last.as_str(), words));
        let mut before = Before {
            command: root,
            option: None,
            positional: Vec::new(),
            address: None,
            context: None,
            is_ended: false,
        };
        for word in words {
            before.read(word);
        }
        (before.wanted(last), last)
    }
}

impl<'a> Before<'a> {
    fn read(&mut self, word: &'a str) {
        if let Some(option) = self.option
            && (self.is_ended || !word.starts_with('-'))
        {
            self.value(option, word);
            let takes_more = option.get_num_args().is_some_and(|count| count.max_values() > 1);
            self.option = self.option.filter(|_| takes_more);
        } else if !self.is_ended && word == "--" {
            (self.is_ended, self.option) = (true, None);
        } else if !self.is_ended && word.starts_with('-') && word != "-" {
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let option = self.find(name).filter(|option| option.get_action().takes_values());
            match (option, value) {
                (Some(option), Some(value)) => self.value(option, value),
                // What takes its value only after `=` has none here.
                (option, _) => self.option = option.filter(|option| !option.is_require_equals_set()),
            }
        } else if let Some(command) = self.command.find_subcommand(word) {
            self.command = command;
        } else {
            self.positional.push(word);
        }
    }

    fn value(&mut self, option: &Arg, value: &str) {
        match option.get_long() {
            Some("controller") => self.address = Some(value.to_owned()),
            Some("context") => self.context = Some(value.to_owned()),
            _ => {}
        }
    }

    /// The address of the controller that the words before mean, if they mean one. Nothing answers at that of an unknown context.
    fn address(&self) -> Option<String> {
        let of_context = |name: &String| {
            let file = ContextFile::read().ok();
            let found = file.iter().flat_map(ContextFile::contexts).find(|(known, _)| known == name);
            found.map(|(_, address)| address.to_owned()).unwrap_or_default()
        };
        self.address.clone().or_else(|| self.context.as_ref().map(of_context))
    }

    /// The option of this name, with its dashes.
    fn find(&self, name: &str) -> Option<&'a Arg> {
        let is_named = |option: &&Arg| match name.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option.get_short().is_some_and(|short| name[1..].starts_with(short)),
        };
        self.command.get_arguments().find(is_named)
    }

    fn wanted(&self, last: &str) -> Wanted<'a> {
        if let Some(option) = self.option.filter(|_| !last.starts_with('-')) {
            return self.of(option, "");
        }
        if last.starts_with('-') && !self.is_ended {
            return match last.split_once('=') {
                Some((name, _)) => {
                    self.find(name).map_or(Wanted::Nothing, |option| self.of(option, &format!("{name}=")))
                }
                None => Wanted::Options(self.command),
            };
        }
        if self.command.has_subcommands() {
            let is_known = self.positional.is_empty();
            return if is_known { Wanted::Commands(self.command) } else { Wanted::Nothing };
        }
        let positionals: Vec<&Arg> = self.command.get_positionals().collect();
        let is_open = |last: &&&Arg| last.get_num_args().is_some_and(|count| count.max_values() > 1);
        let next = positionals.get(self.positional.len()).or_else(|| positionals.last().filter(is_open));
        next.map_or(Wanted::Nothing, |next| self.of(next, ""))
    }

    /// What a value of an argument can be, after a text that is typed already.
    fn of(&self, argument: &Arg, typed: &str) -> Wanted<'a> {
        let address = self.address();
        let values: Vec<(String, String)> = (argument.get_possible_values().iter())
            .filter(|value| !value.is_hide_set())
            .map(|value| {
                let about = value.get_help().map(ToString::to_string).unwrap_or_default();
                (value.get_name().to_owned(), about)
            })
            .collect();
        if !values.is_empty() {
            return Wanted::Values(values, typed.to_owned());
        }
        match (self.command.get_name(), argument.get_id().as_str()) {
            (command @ ("get" | "delete" | "set" | "describe" | "edit"), "kind")
            | (command @ "apply", "kinds") => Wanted::Kinds { address, flows: command == "get" },
            ("get" | "delete" | "set" | "describe" | "edit", "id") => match self.positional.first() {
                Some(kind) => Wanted::Ids { address, kind: (*kind).to_owned() },
                None => Wanted::Nothing,
            },
            ("get", name @ ("labels" | "fields")) => match self.positional.first() {
                Some(kind) => {
                    let of = if name == "labels" { Conditions::Labels } else { Conditions::Fields };
                    Wanted::Conditions { address, kind: (*kind).to_owned(), of, prefix: typed.to_owned() }
                }
                None => Wanted::Nothing,
            },
            ("get", name @ "switch") => Wanted::Ids { address, kind: name.to_owned() },
            ("get", "host") => Wanted::Ids { address, kind: "status".to_owned() },
            ("status", "node") => Wanted::Ids { address, kind: "status".to_owned() },
            ("explain-fields", "path") => Wanted::FieldPaths { address },
            (_, "context") | ("use", "name") => Wanted::Contexts(typed.to_owned()),
            (_, "programs" | "paths" | "rules") => Wanted::Programs,
            _ if argument.get_value_hint() == ValueHint::AnyPath => Wanted::Files,
            _ => Wanted::Nothing,
        }
    }
}
