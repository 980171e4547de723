//! What `--help` and `-h` print. `--help` shows all options of a command and examples, on a screen of 50 lines; `-h` shows the common ones,
//! on a screen of 30. Clap's own long form would take three lines for each option.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

/// `-h` leaves out the options under this heading.
pub(crate) const MORE: &str = "More options";

/// Commands for one purpose.
struct Group {
    purpose: &'static str,
    /// Those that `weft --help` lists with a sentence, in this order.
    listed: &'static [&'static str],
    /// Those that it only names.
    named: &'static [&'static str],
}

/// The commands by what people want to do.
const GROUPS: [Group; 3] = [
    Group {
        purpose: "Operate a network",
        listed: &[
            "controller",
            "status",
            "apply",
            "diff",
            "set",
            "get",
            "delete",
            "history",
            "trace",
            "explain",
        ],
        named: &[
            "describe",
            "edit",
            "events",
            "explain-fields",
            "replay",
            "rollback",
            "snapshot",
            "support-bundle",
            "top",
        ],
    },
    Group {
        purpose: "Write rules",
        listed: &["check", "fmt", "test", "eval", "why-not"],
        named: &["pipeline", "plan", "profile", "rules", "tables"],
    },
    Group {
        purpose: "Try it out, and set up",
        listed: &["demo", "lab", "pki"],
        named: &["completions", "context", "responder", "schema", "token"],
    },
];

/// The command line, with the help that these words ask for.
pub(crate) fn command(words: &[OsString]) -> Command {
    let asked = words.iter().find(|word| *word == "-h" || *word == "--help");
    let command = crate::Arguments::command();
    let front = front(&command);
    let command = command.help_template(front);
    if asked.is_some_and(|word| word == "-h") {
        command.mut_subcommands(|each| brief(each, "weft"))
    } else {
        command
    }
}

/// What `weft --help` prints: the commands in groups.
fn front(command: &Command) -> String {
    let mut text = "{about}\nUsage: weft [--context <NAME>] <COMMAND>\n".to_owned();
    for Group { purpose, listed, named } in GROUPS {
        let _ = write!(text, "\n{purpose}:\n");
        for each in listed.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = each.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:12} {about}", each.get_name());
        }
        if !named.is_empty() {
            let _ = writeln!(text, "  and {}", named.join(", "));
        }
    }
    text + "`weft COMMAND -h` lists a command's options, `--help` all of them. `weft -V` prints the version.\n"
}

/// A command, and those below it, with the common options only.
fn brief(command: Command, above: &str) -> Command {
    let path = format!("{above} {}", command.get_name());
    let has_more = command.get_after_help().is_some() || command.get_arguments().any(is_rare);
    let command = command.mut_args(|option| if is_rare(&option) { option.hide(true) } else { option });
    let command = command.mut_subcommands(|each| brief(each, &path));
    if has_more { command.after_help(format!("`{path} --help` shows more.")) } else { command }
}

fn is_rare(option: &Arg) -> bool {
    option.get_help_heading() == Some(MORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns that a line of help may take.
    const COLUMNS: usize = 100;

    /// The help of every command that is not hidden, by its name.
    fn all(form: &str) -> Vec<(String, String)> {
        fn add(command: &mut Command, above: &str, found: &mut Vec<(String, String)>) {
            let path = format!("{above}{}", command.get_name());
            found.push((path.clone(), command.render_help().to_string()));
            for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set()) {
                if below.get_name() != "help" {
                    add(below, &format!("{path} "), found);
                }
            }
        }
        let mut root = command(&["weft".into(), form.into()]);
        root.build();
        let mut found = Vec::new();
        add(&mut root, "", &mut found);
        assert!(found.len() > 20, "{found:?}");
        found
    }

    #[test]
    fn the_help_of_every_command_fits_a_screen() {
        let mut faults = String::new();
        for (form, lines) in [("-h", 30), ("--help", 50)] {
            for (path, text) in all(form) {
                let most = if path == "weft" { 30 } else { lines };
                let count = text.lines().count();
                if count > most {
                    let _ = writeln!(faults, "{path} {form}: {count} lines, and a screen has {most}");
                }
                for line in text.lines().filter(|line| line.chars().count() > COLUMNS) {
                    let _ = writeln!(faults, "{path} {form}: wider than {COLUMNS} columns: {line}");
                }
            }
        }
        assert!(faults.is_empty(), "{faults}");
    }

    #[test]
    fn the_brief_help_says_where_the_rest_is() {
        let (briefs, fulls) = (all("-h"), all("--help"));
        for ((path, brief), (_, full)) in briefs.iter().zip(&fulls).skip(1) {
            let pointer = format!("`{path} --help` shows more.");
            assert_eq!(brief.contains(&pointer), brief != full, "{brief}");
            assert!(!full.contains(&pointer), "{full}");
        }
        let of = |path: &str| briefs.iter().find(|(each, _)| each == path).map(|(_, text)| text.as_str());
        let trace = of("weft trace").unwrap_or_default();
        assert!(trace.contains("--to <PORT>") && !trace.contains("--from-mac"), "{trace}");
    }

    #[cfg(feature = "lab")]
    #[test]
    fn every_command_is_in_one_group() {
        let root = crate::Arguments::command();
        let mut shown: Vec<&str> =
            root.get_subcommands().filter(|each| !each.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.listed.iter().chain(group.named).copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }
}
