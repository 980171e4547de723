//! The checks of flows and groups that a bridge accepts.

use openflow_rs::action::{Learn, Nat};
use openflow_rs::flow::ALL_TABLES;
use openflow_rs::{Action, Actions, Field, Match, PortNo, Prerequisite};

use crate::Refused;

/// Which groups and meters there are.
#[derive(Clone, Copy)]
pub(crate) struct There<'a> {
    pub(crate) group: &'a dyn Fn(u32) -> bool,
    pub(crate) meter: &'a dyn Fn(u32) -> bool,
}

/// Refuses actions of a flow or a bucket that the simulator does not interpret before a packet reaches them.
pub(crate) fn check(actions: &Actions, table: u8, there: There<'_>) -> Result<(), Refused> {
    // A meter comes first and applies to all the rest.
    let rest = match actions.0.first() {
        Some(Action::Meter(meter)) if !(there.meter)(meter.id) => return Err(Refused::NoMeter(meter.id)),
        Some(Action::Meter(_)) => actions.0.get(1..).unwrap_or_default(),
        _ => &actions.0,
    };
    check_list(rest, table, there)
}

/// Refuses a match of which a switch silently leaves out a part.
pub(crate) fn check_match(matches: &Match) -> Result<(), Refused> {
    let ports = [Field::CtTpSrc, Field::CtTpDst];
    let lacks_protocol = matches.get(Field::CtNwProto).is_none();
    match ports.into_iter().find(|port| lacks_protocol && matches.get(*port).is_some()) {
        Some(port) => Err(Refused::Ignored(port)),
        None => Ok(()),
    }
}

/// Refuses an action for IP packets in a flow that does not match them, as a switch does (`OFPBAC_MATCH_INCONSISTENT`). A bucket has
/// no match, and there a switch takes such actions.
pub(crate) fn check_protocol(matches: &Match, actions: &Actions) -> Result<(), Refused> {
    actions.0.iter().try_for_each(|action| match action {
        Action::DecTtl(_) | Action::SetTtl(_) | Action::Ct(_) if !matches.meets(Prerequisite::Ip) => {
            Err(Refused::NotIp(Box::new(action.clone())))
        }
        Action::Ct(ct) => check_protocol(matches, &ct.actions),
        Action::Nat(nat) if !is_family(matches, *nat) => Err(Refused::Family(Box::new(action.clone()))),
        Action::CloneActions(clone) => check_protocol(matches, &clone.actions),
        _ => Ok(()),
    })
}

/// Whether packets have addresses like those that `nat` gives them.
fn is_family(matches: &Match, nat: Nat) -> bool {
    let range = nat.change().and_then(|(_, range)| range);
    range.is_none_or(|range| {
        let is_ipv6 = range.addresses().0.is_ipv6();
        matches.meets(if is_ipv6 { Prerequisite::Ipv6 } else { Prerequisite::Ipv4 })
    })
}

fn check_list(actions: &[Action], table: u8, there: There<'_>) -> Result<(), Refused> {
    if table == ALL_TABLES {
        return Err(Refused::Table(table));
    }
    for action in actions {
        let unsupported = |why| Err(Refused::Action { action: Box::new(action.clone()), why });
        match action {
            Action::Ct(ct) if ct.alg != 0 => {
                return unsupported("the connections that others announce are not looked for; leave out alg");
            }
            Action::Nat(_) => return unsupported("it is a part of ct"),
            Action::Learn(learn) => {
                if let Some(why) = unlearnable(learn) {
                    return unsupported(why);
                }
            }
            Action::Conjunction(_) if !actions.iter().all(goes_with_clauses) => {
                return unsupported("a switch refuses other actions beside it, except note");
            }
            Action::Meter(_) => return unsupported("a meter is the first action of a flow"),
            Action::WriteActions(_) | Action::ClearActions(_) => {
                return unsupported("flows have no action set here, only buckets do; apply the actions");
            }
            Action::CheckPktLarger(check) if !check.result().field().is_scratch() => {
                return unsupported(
                    "Open vSwitch does not write the result to packets; write it to a register",
                );
            }
            Action::Unknown(_) => return unsupported("the action is not known"),
            Action::Resubmit(resubmit) if resubmit.ct => {
                return unsupported(
                    "a look-up by the original direction is not there; match ct_nw_src and the like",
                );
            }
            Action::Output(output) if output.port == PortNo::NORMAL => {
                return unsupported("a learning bridge is not there; write the flows");
            }
            Action::Output(output) if output.port == PortNo::TABLE => {
                return unsupported("only packet-outs may use it; write resubmit(,0)");
            }
            Action::Group(group) if !(there.group)(group.id) => {
                return Err(Refused::NoGroup(group.id));
            }
            Action::GotoTable(goto) if goto.table <= table => {
                return Err(Refused::Backwards { from: table, to: goto.table });
            }
            Action::CloneActions(clone) => check_list(&clone.actions.0, table, there)?,
            _ => {}
        }
    }
    Ok(())
}

fn goes_with_clauses(action: &Action) -> bool {
    matches!(action, Action::Conjunction(_) | Action::Note(_))
}

fn unlearnable(learn: &Learn) -> Option<&'static str> {
    if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 {
        Some("the ends of TCP connections are not looked at")
    } else if learn.result().is_some() {
        Some("packets cannot tell whether the flow was learned; leave out result_dst")
    } else if learn.table == ALL_TABLES {
        Some("flows can be in tables 0 to 254")
    } else {
        None
    }
}

/// Calls a function for every group that actions name.
pub(crate) fn groups_named(actions: &Actions, call: &mut dyn FnMut(u32)) {
    for action in &actions.0 {
        match action {
            Action::Group(group) => call(group.id),
            Action::CloneActions(clone) => groups_named(&clone.actions, call),
            _ => {}
        }
    }
}
