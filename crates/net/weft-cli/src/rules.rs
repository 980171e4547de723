//! `weft rules`: the rules of a controller, compared with others, watched while they are written, and changed while it runs.

mod diff;
mod watch;

use clap::{Args, Subcommand};

use crate::client::{LoadRules, RollbackRules, RulesHistory};
use crate::exit::Failure;
use diff::RulesDiff;
use watch::WatchRules;

/// Arguments of `weft rules`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft rules diff builtin my-rules                       in the running network\n  \
        weft rules diff builtin my-rules --snapshot net.weft   in a recorded one\n  \
        weft rules diff my-rules --max-changes 0               exit with 1 if anything would change\n  \
        weft rules watch builtin my-rules --snapshot net.weft  say so at each save\n  \
        weft rules load builtin my-rules                       go on with these rules\n  \
        weft rules rollback                                    go back to those before\n\n\
        What was loaded holds, also after a restart, until `rules` in the configuration names other rules\n\
        or their files change.")]
pub(crate) struct RulesCommand {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show what other rules would change: flows by host, table and rule, and problems
    Diff(RulesDiff),
    /// Show what each save of rules changes in a recorded network
    Watch(WatchRules),
    /// Go on with other rules, without a restart
    Load(LoadRules),
    /// Go back to earlier rules
    Rollback(RollbackRules),
    /// Show which rules ran since when
    History(RulesHistory),
}

impl RulesCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.task {
            Task::Diff(diff) => diff.run(),
            Task::Watch(watch) => watch.run(),
            Task::Load(load) => load.run(),
            Task::Rollback(rollback) => rollback.run(),
            Task::History(history) => history.run(),
        }
    }
}
