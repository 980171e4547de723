//! The first line of `weft status`: whether all is well; otherwise what is not, since when, and the command to run next.

use nlog_data::quotation::{cut, grouped};
use weft_client::pb::{ObjectRef, Problem, StatusResponse, SwitchStatus};
use weft_core::shown;

use super::since;

/// Whether all is well: every switch is in sync, every object is fulfilled, every interface has its port, and the engine turns.
pub(super) fn is_well(status: &StatusResponse) -> bool {
    wrong(status).is_empty()
}

/// The line.
pub(super) fn headline(status: &StatusResponse) -> String {
    let wrong = wrong(status);
    if wrong.is_empty() {
        return match status.switches.len() {
            0 => "all is well; there are no switches\n".to_owned(),
            1 => "all is well; 1 switch is in sync\n".to_owned(),
            count => format!("all is well; {} switches are in sync\n", grouped(count)),
        };
    }
    let next = next(status).map(|command| format!("; next: {command}")).unwrap_or_default();
    format!("not well: {}{next}\n", wrong.join("; "))
}

fn is_out(switch: &SwitchStatus) -> bool {
    !(switch.connected && switch.synced)
}

/// What is not well.
fn wrong(status: &StatusResponse) -> Vec<String> {
    let mut wrong = Vec::new();
    let out: Vec<&SwitchStatus> = status.switches.iter().filter(|switch| is_out(switch)).collect();
    if let Some(first) = out.first() {
        let are = if out.len() == 1 { "is" } else { "are" };
        let more =
            if out.len() == 1 { String::new() } else { format!(" and {} more", grouped(out.len() - 1)) };
        let earliest = out.iter().filter_map(|switch| since(switch)).min();
        let time = earliest.map(|time| format!(", since {}", shown(time))).unwrap_or_default();
        wrong.push(format!(
            "{} of {} switches {are} not in sync ({}{more}{time})",
            grouped(out.len()),
            grouped(status.switches.len()),
            name(&first.node)
        ));
    }
    let count = |count: usize, one: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{} {several}", grouped(count))),
    };
    let strays = status.switches.iter().map(|switch| switch.stray_count as usize).sum();
    let earliest =
        status.problems.iter().map(|problem| &problem.since).filter(|since| !since.is_empty()).min();
    let time = earliest.map(|time| format!(", since {}", shown(time))).unwrap_or_default();
    let problems = count(status.problems.len(), "problem", "problems");
    wrong.extend(problems.map(|problems| format!("{problems}{time}")));
    wrong.extend(count(strays, "interface without a port", "interfaces without a port"));
    let stalled = status.engine.as_ref().filter(|engine| engine.stalled);
    wrong.extend(
        stalled.map(|engine| format!("the engine has not turned for {} s", engine.milliseconds / 1000)),
    );
    wrong
}

/// The command that says more.
fn next(status: &StatusResponse) -> Option<String> {
    // Whoever asks for one switch sees all there is of it.
    let is_whole = status.switches.len() != 1;
    if let Some(out) = status.switches.iter().find(|switch| is_out(switch)).filter(|_| is_whole) {
        return Some(format!("weft status {}", name(&out.node)));
    }
    let object = |problem: &Problem| problem.object.clone().filter(|object| object.kind != "controller");
    let ObjectRef { kind, id } = status.problems.iter().find_map(object)?;
    Some(format!("weft explain {} {}", name(&kind), name(&id)))
}

/// A name of somebody else's, in a line.
fn name(text: &str) -> String {
    shown(&cut(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use weft_client::pb::EngineWork;

    use super::*;

    fn switch(node: &str, synced: bool, since: &str) -> SwitchStatus {
        SwitchStatus {
            node: node.to_owned(),
            connected: synced,
            synced,
            not_connected_since: since.to_owned(),
            ..SwitchStatus::default()
        }
    }

    fn line(
        switches: &[SwitchStatus],
        problems: &[(&str, &str)],
        change: impl FnOnce(&mut StatusResponse),
    ) -> String {
        let problem = |(kind, id): &(&str, &str)| Problem {
            object: Some(ObjectRef { kind: (*kind).to_owned(), id: (*id).to_owned() }),
            ..Problem::default()
        };
        let mut status = StatusResponse {
            switches: switches.to_vec(),
            problems: problems.iter().map(problem).collect(),
            ..StatusResponse::default()
        };
        change(&mut status);
        let line = headline(&status);
        assert_eq!(is_well(&status), line.starts_with("all is well"), "{line}");
        line
    }

    #[test]
    fn one_line_says_whether_all_is_well_and_what_to_do_otherwise() {
        let none = |_: &mut StatusResponse| ();
        let (good, bad) = (switch("hv1", true, ""), switch("hv2", false, "2026-11-28T10:00:00Z"));
        let worse = switch("hv3", false, "2026-11-28T09:00:00Z");
        assert_eq!(line(&[], &[], none), "all is well; there are no switches\n");
        assert_eq!(line(std::slice::from_ref(&good), &[], none), "all is well; 1 switch is in sync\n");
        assert_eq!(
            line(&[good.clone(), bad.clone()], &[("switch", "a")], none),
            "not well: 1 of 2 switches is not in sync (hv2, since 2026-11-28T10:00:00Z); 1 problem; next: weft status hv2\n"
        );
        assert_eq!(
            line(&[good.clone(), bad.clone(), worse], &[], none),
            "not well: 2 of 3 switches are not in sync (hv2 and 1 more, since 2026-11-28T09:00:00Z); next: weft status hv2\n"
        );
        assert_eq!(
            line(std::slice::from_ref(&good), &[("controller", "certificate"), ("switch_port", "p")], none),
            "not well: 2 problems; next: weft explain switch_port p\n"
        );
        assert_eq!(line(&[], &[("controller", "certificate")], none), "not well: 1 problem\n");
        let dated = |status: &mut StatusResponse| {
            let times = ["", "2026-11-28T10:00:00Z", "2026-11-28T09:30:00Z"];
            for (problem, time) in status.problems.iter_mut().zip(times) {
                time.clone_into(&mut problem.since);
            }
        };
        assert_eq!(
            line(&[], &[("controller", "certificate"), ("router", "r"), ("switch_port", "p")], dated),
            "not well: 3 problems, since 2026-11-28T09:30:00Z; next: weft explain router r\n"
        );
        let strays = SwitchStatus { stray_count: 2, ..good };
        let stalled = |status: &mut StatusResponse| {
            status.engine = Some(EngineWork { stalled: true, milliseconds: 12_345, ..EngineWork::default() });
        };
        assert_eq!(
            line(&[strays], &[], stalled),
            "not well: 2 interfaces without a port; the engine has not turned for 12 s\n"
        );
    }
}
