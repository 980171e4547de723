//! The report of a failure.

use std::fmt::Write as _;

use crate::generate::{History, Step, given_frame};
use crate::run::{Difference, Failure, Meanwhile, OneSided};
use crate::simulation::{Out, Simulation};

/// The steps, the world at the end, the frame, both outcomes, and the trace of the frame on each host.
pub fn text(history: &History, failure: &Failure, simulation: &mut Simulation) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Steps:");
    for (number, step) in history.steps.iter().enumerate() {
        match step {
            Step::Change(changes) => {
                for change in changes {
                    let _ = writeln!(text, "{number:4}. {change}");
                }
            }
            Step::OneByOne { changes, frames, .. } => {
                for change in changes {
                    let _ = writeln!(text, "{number:4}. host by host: {change}");
                }
                for (place, bytes) in frames {
                    let _ = writeln!(text, "      meanwhile {place} sends {}", hex(bytes));
                }
            }
            Step::Wait(seconds) => {
                let _ = writeln!(text, "{number:4}. {seconds} seconds pass");
            }
            Step::Send(place, bytes) => {
                let _ = writeln!(text, "{number:4}. {place} sends {}", hex(bytes));
            }
            Step::SendGiven(seed) => match given_frame(&failure.world, *seed) {
                Some((place, bytes)) if number == failure.step => {
                    let _ = writeln!(text, "{number:4}. {place} sends {}", hex(&bytes));
                }
                _ => {
                    let _ = writeln!(
                        text,
                        "{number:4}. frame {seed} from or to a port whose addresses the rules have given"
                    );
                }
            },
            Step::Forge(host, forged) => {
                let (from, encapsulation, key) = (forged.from, forged.encapsulation, forged.key);
                let _ = writeln!(
                    text,
                    "{number:4}. {from} sends to the tunnel endpoint of {host}, by {encapsulation:?} with key {key:#x}, \
                     option {:x?}: {}",
                    forged.option,
                    hex(&forged.inner)
                );
            }
        }
    }
    let _ = writeln!(text, "\nThe world at step {}:\n{}", failure.step, failure.world);
    match &failure.difference {
        Difference::Change(why) => {
            let _ = writeln!(text, "The change is refused: {why}");
        }
        Difference::Ports(OneSided { model, rules }) => {
            let _ = writeln!(text, "Only the model wants {model:?}, only the rules want {rules:?}");
        }
        Difference::Announcements(OneSided { model, rules }) => {
            let _ = writeln!(text, "Only the model has heard {model:?}, only the rules have heard {rules:?}");
        }
        Difference::Problems(OneSided { model, rules }) => {
            let _ = writeln!(text, "Problems of the model alone: {model:?}, of the rules alone: {rules:?}");
        }
        Difference::Meanwhile(meanwhile) => {
            let Meanwhile { from, bytes, changed, arrivals, trace } = &**meanwhile;
            let bytes = hex(bytes);
            let _ =
                writeln!(text, "{from} sends {bytes} once {changed:?} have changed, and this must not be:");
            for Out { at, bytes } in arrivals {
                let _ = writeln!(text, "at {at}: {}", hex(bytes));
            }
            text.push_str(trace);
        }
        Difference::Copies { model, rules } => {
            let _ =
                writeln!(text, "Copies between hosts: the model sends {model:?}, the rules send {rules:?}");
        }
        Difference::Choices(faults) => {
            let _ = writeln!(text, "The replication trees, relays or addresses cannot be right: {faults:?}");
        }
        Difference::Mtu { switch, model, rules } => {
            let _ = writeln!(text, "MTU of {switch}: the model says {model:?}, the rules say {rules:?}");
        }
        Difference::Lost(why) => {
            let _ = writeln!(text, "A frame is lost: {why}");
        }
        Difference::Messages { model, rules } => {
            for (title, from, but) in
                [("Only the model says", model, rules), ("Only the rules say", rules, model)]
            {
                for (place, said) in from.iter().filter(|saying| !but.contains(saying)) {
                    let _ = writeln!(text, "{title}: at {place}: {said:02x?}");
                }
            }
        }
        Difference::Frames { model, rules } => {
            list(&mut text, "Only the model delivers", model, rules);
            list(&mut text, "Only the rules deliver", rules, model);
            list(&mut text, "Both deliver", &both(model, rules), &[]);
        }
    }
    let crossing = match history.steps.get(failure.step) {
        Some(Step::Send(place, bytes)) => Some(simulation.trace(place, bytes)),
        Some(Step::SendGiven(seed)) => {
            given_frame(&failure.world, *seed).map(|(place, bytes)| simulation.trace(&place, &bytes))
        }
        Some(Step::Forge(host, forged)) => Some(simulation.hosts().trace_tunnelled(host, forged)),
        _ => None,
    };
    if let Some(crossing) = crossing.filter(|_| !matches!(failure.difference, Difference::Change(_))) {
        for (host, steps) in crossing.hops {
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

/// Lists the elements of one list that the other does not have, with their multiplicity.
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
