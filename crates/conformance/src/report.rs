//! A failure as people read it.

use std::fmt::Write as _;

use crate::generate::{History, Step};
use crate::run::{Difference, Failure};
use crate::simulation::{Out, Simulation};

/// What happened, the world at the end, the frame, both outcomes, and what each host did with it.
pub fn text(history: &History, failure: &Failure, simulation: &mut Simulation) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "What happens:");
    for (number, step) in history.steps.iter().enumerate() {
        match step {
            Step::Change(changes) => {
                for change in changes {
                    let _ = writeln!(text, "{number:4}. {change}");
                }
            }
            Step::Wait(seconds) => {
                let _ = writeln!(text, "{number:4}. {seconds} seconds pass");
            }
            Step::Send(place, bytes) => {
                let _ = writeln!(text, "{number:4}. {place} sends {}", hex(bytes));
            }
        }
    }
    let _ = writeln!(text, "\nThe world at step {}:\n{}", failure.step, failure.world);
    match &failure.difference {
        Difference::Change(why) => {
            let _ = writeln!(text, "The change does not go through: {why}");
        }
        Difference::Mtu { switch, model, rules } => {
            let _ = writeln!(text, "MTU of {switch}: {model:?} by the model, {rules:?} by the rules");
        }
        Difference::Lost(why) => {
            let _ = writeln!(text, "A frame is lost: {why}");
        }
        Difference::Frames { model, rules } => {
            list(&mut text, "Only by the model comes out", model, rules);
            list(&mut text, "Only by the rules comes out", rules, model);
            list(&mut text, "By both comes out", &both(model, rules), &[]);
        }
    }
    if let Some(Step::Send(place, bytes)) = history.steps.get(failure.step)
        && !matches!(failure.difference, Difference::Change(_))
    {
        for (host, steps) in simulation.trace(place, bytes).hops {
            let _ = writeln!(text, "\nOn {host}:");
            for step in steps {
                let _ = write!(text, "{step}");
            }
        }
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    for at in [28, 24, 12] {
        if text.len() > at {
            text.insert(at, ' ');
        }
    }
    text
}

/// What is in one and not in the other, as often as it is.
fn list(text: &mut String, title: &str, from: &[Out], but: &[Out]) {
    let mut rest = but.to_vec();
    for out in from {
        if let Some(at) = rest.iter().position(|other| other == out) {
            rest.swap_remove(at);
        } else {
            let _ = writeln!(text, "{title}: at {}: {}", out.at, hex(&out.bytes));
        }
    }
}

fn both(one: &[Out], other: &[Out]) -> Vec<Out> {
    let mut rest = other.to_vec();
    let shared =
        |out: &&Out| rest.iter().position(|other| other == *out).map(|at| rest.swap_remove(at)).is_some();
    one.iter().filter(shared).cloned().collect()
}
