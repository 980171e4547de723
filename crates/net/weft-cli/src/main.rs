//! The `weft` command: checks and runs rules, applies networks, and makes labs.
//!
//! Each command is one module. This file only parses the command line and turns results into exit statuses
//! ([`exit::Failure`]). Data goes to standard output, messages for people to standard error.
//!
//! The feature `lab`, on by default, adds `weft lab` and `weft demo`.
#![deny(unsafe_code)]

mod check;
mod client;
mod columns;
mod compare;
mod completions;
mod contexts;
mod daemon;
#[cfg(feature = "lab")]
mod demo;
mod eval;
mod exit;
mod explain;
mod faults;
mod fields;
mod flow_counts;
mod flows;
mod fmt;
mod free_memory;
mod help;
#[cfg(test)]
mod hostile_texts;
#[cfg(feature = "lab")]
mod lab;
mod listing;
mod logical_flows;
mod manual;
mod pipeline;
mod pki;
mod plan;
mod profile;
mod program;
mod recorded;
mod replacement;
mod replay;
mod responder;
mod rules;
mod samples;
mod saved_files;
mod schema;
mod snapshot;
mod status;
mod support_bundle;
mod tables;
mod test;
mod token;
mod top;
mod trace;
mod tunnels;
mod wait;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use exit::Failure;

/// A network virtualisation controller with forwarding logic written as rules.
#[derive(Parser)]
#[command(name = "weft", version, arg_required_else_help = true)]
struct Arguments {
    /// Controller: by its name in `weft context list`
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check rules for errors, and warn about likely mistakes
    Check(check::Check),
    /// Format rules
    Fmt(fmt::Fmt),
    /// Run the unit tests of rules
    Test(test::Test),
    /// Show how rules are evaluated: join orders, indexes and estimated costs
    Plan(plan::PlanCommand),
    /// Show the flow tables that rules describe: stages, priorities, matches and actions
    Pipeline(pipeline::PipelineCommand),
    /// Show the tables of rules: columns, types and keys, who fills them and who reads them
    Tables(tables::TablesCommand),
    /// Run transactions through rules and print what changes
    Eval(eval::Eval),
    /// Run transactions through rules and show where time and memory go
    Profile(profile::Profile),
    /// Explain an object in sentences, or why a row of the rules exists
    Explain(explain::Explain),
    /// Explain why a row does not exist: what each rule lacks
    WhyNot(explain::WhyNotCommand),
    /// Follow a packet through the network: where it arrives, or why it is dropped
    Trace(trace::TraceCommand),
    /// Print the JSON Schema of network objects, or list their kinds
    Schema(schema::Schema),
    /// Run the controller
    Controller(daemon::Controller),
    /// Run the responder of a host: it sends the messages that flows cannot build, such as ICMP errors
    Responder(responder::Responder),
    /// Create, update or delete the network objects in YAML or JSON files
    Apply(client::Apply),
    /// Show what applying files would change: objects, and flows of hosts by table and rule
    Diff(client::Diff),
    /// Change some fields of a network object, and leave the others as they are
    Set(client::Set),
    /// Print network objects, flows, listings and what hosts have counted
    Get(client::Get),
    /// Describe a network object: all fields, revision, state and problems
    Describe(client::Describe),
    /// Show the fields of a kind of objects: types, defaults, and what each is for
    ExplainFields(fields::ExplainFields),
    /// Change a network object in an editor
    Edit(client::Edit),
    /// Show the state of the controller and its switches, and all problems
    Status(status::Status),
    /// Watch rates and times of the controller, the slowest switches and the heaviest rules
    Top(top::Top),
    /// Delete a network object, or the objects in files
    Delete(client::Delete),
    /// Show who changed which objects, and when
    History(client::History),
    /// Show what happens: changes of objects, problems, and hosts that connect and leave
    Events(client::Events),
    /// Bring all objects back to what they were after a transaction
    Rollback(client::Rollback),
    /// Take a snapshot of a controller as one file, show it, or restore it
    Snapshot(snapshot::SnapshotCommand),
    /// Write what somebody who helps needs to know of a running controller, as one file
    SupportBundle(support_bundle::SupportBundle),
    /// Compute what a controller has recorded: past states, changes, flows, with other rules
    Replay(replay::Replay),
    /// Change the rules of a running controller, or show what others would change
    Rules(rules::RulesCommand),
    /// Choose which controller commands ask, of several
    Context(contexts::ContextCommand),
    /// Make a CA, and certificates for controllers, hosts and people
    Pki(pki::PkiCommand),
    /// Make and revoke tokens for clients of the API without a certificate
    Token(token::TokenCommand),
    /// Print a completion script for bash, zsh or fish
    Completions(completions::Completions),
    /// The candidates that the scripts of `weft completions` ask for
    #[command(hide = true)]
    Complete(completions::Complete),
    /// Write the man pages, for packages
    #[command(hide = true)]
    Manual(manual::Manual),
    /// Manage a lab of virtual hosts with real Open vSwitch on this machine
    #[cfg(feature = "lab")]
    Lab(lab::Lab),
    /// See isolation, migration and a controller failure in a lab, in two minutes
    #[cfg(feature = "lab")]
    Demo(demo::Demo),
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let matches = help::command(&words).try_get_matches_from(words);
    let parsed = matches.and_then(|matches| {
        let arguments =
            Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut Arguments::command()))?;
        Ok((arguments, matches))
    });
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(answer) => return exit::usage(&answer),
    };
    if let Some(context) = arguments.context {
        if !asks_a_controller(&Arguments::command(), &matches) {
            let usage = "--context belongs to commands that ask a controller, and this one asks none";
            return Failure::Usage(usage.to_owned()).report();
        }
        contexts::name_before_command(context);
    }
    let result = match arguments.command {
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Test(test) => test.run(),
        Command::Plan(plan) => plan.run(),
        Command::Pipeline(pipeline) => pipeline.run(),
        Command::Tables(tables) => tables.run(),
        Command::Eval(eval) => eval.run(),
        Command::Profile(profile) => profile.run(),
        Command::Explain(explain) => explain.run(),
        Command::WhyNot(why_not) => why_not.run(),
        Command::Trace(trace) => trace.run(),
        Command::Schema(schema) => schema.run(),
        Command::Controller(controller) => controller.run(),
        Command::Responder(responder) => responder.run(),
        Command::Apply(apply) => apply.run(),
        Command::Diff(diff) => diff.run(),
        Command::Set(set) => set.run(),
        Command::Get(get) => get.run(),
        Command::Describe(describe) => describe.run(),
        Command::ExplainFields(fields) => fields.run(),
        Command::Edit(edit) => edit.run(),
        Command::Status(status) => status.run(),
        Command::Top(top) => top.run(),
        Command::Delete(delete) => delete.run(),
        Command::History(history) => history.run(),
        Command::Events(events) => events.run(),
        Command::Rollback(rollback) => rollback.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::SupportBundle(bundle) => bundle.run(),
        Command::Replay(replay) => replay.run(),
        Command::Rules(rules) => rules.run(),
        Command::Context(context) => context.run(),
        Command::Pki(pki) => pki.run(),
        Command::Token(token) => token.run(),
        Command::Completions(completions) => completions.run(),
        Command::Complete(complete) => complete.run(),
        Command::Manual(manual) => manual.run(),
        #[cfg(feature = "lab")]
        Command::Lab(lab) => lab.run(),
        #[cfg(feature = "lab")]
        Command::Demo(demo) => demo.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Whether the command that was given has the options for a controller.
fn asks_a_controller(command: &clap::Command, matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((name, below)) => {
            command.find_subcommand(name).is_some_and(|command| asks_a_controller(command, below))
        }
        None => command.get_arguments().any(|argument| argument.get_long() == Some("controller")),
    }
}
