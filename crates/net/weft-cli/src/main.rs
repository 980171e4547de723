//! The `weft` command: checks and runs rules, applies networks, and makes labs.
//!
//! Each command is one module. This file only parses the command line and turns results into exit statuses
//! ([`exit::Failure`]). Data goes to standard output, messages for people to standard error.
//!
//! The feature `lab`, on by default, adds `weft lab` and `weft demo`.
#![deny(unsafe_code)]

mod check;
mod client;
mod completions;
mod daemon;
#[cfg(feature = "lab")]
mod demo;
mod eval;
mod exit;
mod explain;
mod flood_drops;
mod flow_counts;
mod flows;
mod fmt;
mod free_memory;
#[cfg(test)]
mod hostile_texts;
#[cfg(feature = "lab")]
mod lab;
mod learned;
mod logical_flows;
mod pipeline;
mod plan;
mod profile;
mod program;
mod replacement;
mod routes;
mod schema;
mod status;
mod test;
mod trace;
mod tunnels;
mod wait;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A network virtualisation controller with forwarding logic written as rules.
#[derive(Parser)]
#[command(name = "weft", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Parse, type-check and lint rules
    Check(check::Check),
    /// Format rules in the canonical layout
    Fmt(fmt::Fmt),
    /// Run the unit tests of rules
    Test(test::Test),
    /// Show the query plans of rules: join orders, indexes and their estimated cost
    Plan(plan::PlanCommand),
    /// Show the pipeline that rules describe: stages, priorities, matches and actions, each with its rule
    Pipeline(pipeline::PipelineCommand),
    /// Run transactions through rules and print the changes
    Eval(eval::Eval),
    /// Run transactions through rules and show where time and memory go
    Profile(profile::Profile),
    /// Explain why a row exists: its derivation, down to the input rows and their transactions
    Explain(explain::Explain),
    /// Explain why a row does not exist: for each rule, the first atom without a match
    WhyNot(explain::WhyNotCommand),
    /// Trace a packet through the network: where it arrives, or why it is dropped
    Trace(trace::TraceCommand),
    /// Print the JSON Schema of network objects, or the kinds that rules declare
    Schema(schema::Schema),
    /// Run the controller
    Controller(daemon::Controller),
    /// Create, update or delete network objects as YAML or JSON files say, in one transaction
    Apply(client::Apply),
    /// Print network objects, the state of the controller and its switches, or flows
    Get(client::Get),
    /// Show the state of the controller and its switches, and what the network cannot fulfil
    Status(status::Status),
    /// Delete a network object, or the objects of files
    Delete(client::Delete),
    /// Print a script with which a shell completes commands, options, files, kinds and ids
    Completions(completions::Completions),
    /// The candidates that the scripts of `weft completions` ask for
    #[command(hide = true)]
    Complete(completions::Complete),
    /// Manage a lab: virtual hosts with real Open vSwitch in network namespaces
    #[cfg(feature = "lab")]
    Lab(lab::Lab),
    /// Show isolation, migration and a controller failure on real Open vSwitch, in under two minutes
    #[cfg(feature = "lab")]
    Demo(demo::Demo),
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => return exit::usage(&answer),
    };
    let result = match arguments.command {
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Test(test) => test.run(),
        Command::Plan(plan) => plan.run(),
        Command::Pipeline(pipeline) => pipeline.run(),
        Command::Eval(eval) => eval.run(),
        Command::Profile(profile) => profile.run(),
        Command::Explain(explain) => explain.run(),
        Command::WhyNot(why_not) => why_not.run(),
        Command::Trace(trace) => trace.run(),
        Command::Schema(schema) => schema.run(),
        Command::Controller(controller) => controller.run(),
        Command::Apply(apply) => apply.run(),
        Command::Get(get) => get.run(),
        Command::Status(status) => status.run(),
        Command::Delete(delete) => delete.run(),
        Command::Completions(completions) => completions.run(),
        Command::Complete(complete) => complete.run(),
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
