//! The `weft` command: rules checked and run, networks applied, labs made.
//!
//! Each command is one module; this file only parses the command line and turns results into exit statuses
//! ([`exit::Failure`]). Data goes to standard output, everything for people to standard error.
#![forbid(unsafe_code)]

mod check;
mod client;
mod daemon;
mod demo;
mod eval;
mod exit;
mod explain;
mod flows;
mod fmt;
mod lab;
mod plan;
mod profile;
mod program;
mod test;
mod wait;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A network virtualisation controller whose forwarding logic is rules.
#[derive(Parser)]
#[command(name = "weft", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Parse, resolve, type-check and lint rules
    Check(check::Check),
    /// Lay rules out in the one canonical way
    Fmt(fmt::Fmt),
    /// Run the unit tests that stand beside rules
    Test(test::Test),
    /// How rules are evaluated: what is looked up in which order, and why
    Plan(plan::PlanCommand),
    /// Run transactions through rules and print what changes
    Eval(eval::Eval),
    /// One of the processes that `weft eval --processes` starts
    #[command(hide = true)]
    EvalProcess(eval::EvalProcess),
    /// Run transactions through rules and print where time and memory go
    Profile(profile::Profile),
    /// Why is this row there: its derivation, down to input rows and the transactions that put them there
    Explain(explain::Explain),
    /// Why is this row not there: for each rule, the first atom that finds nothing
    WhyNot(explain::WhyNotCommand),
    /// Run the controller
    Controller(daemon::Controller),
    /// Create or update network objects from a YAML or JSON file, all or none
    Apply(client::Apply),
    /// Print network objects, or what the controller knows of switches and flows
    Get(client::Get),
    /// Delete a network object
    Delete(client::Delete),
    /// Virtual hosts in network namespaces with real Open vSwitch, for trying and testing
    Lab(lab::Lab),
    /// Two hypervisors, two tenants, a migration and a dead controller, shown on real Open vSwitch
    Demo(demo::Demo),
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check(check) => check.run(),
        Command::Fmt(fmt) => fmt.run(),
        Command::Test(test) => test.run(),
        Command::Plan(plan) => plan.run(),
        Command::Eval(eval) => eval.run(),
        Command::EvalProcess(process) => process.run(),
        Command::Profile(profile) => profile.run(),
        Command::Explain(explain) => explain.run(),
        Command::WhyNot(why_not) => why_not.run(),
        Command::Controller(controller) => controller.run(),
        Command::Apply(apply) => apply.run(),
        Command::Get(get) => get.run(),
        Command::Delete(delete) => delete.run(),
        Command::Lab(lab) => lab.run(),
        Command::Demo(demo) => demo.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
