//! A trace for programs.

use nlog_explain::Origin;
use serde_json::{Value as Json, json};

use crate::{
    Cause, Delivery, Drop, FlowView, Hop, Leaf, Line, LookupView, Nearest, Responded, Response, Trace,
};

/// The trace as one object.
pub fn json(trace: &Trace) -> Json {
    let mut object = json!({
        "verdict": if trace.is_delivered() { "delivered" } else { "dropped" },
        "text": crate::text::verdict(trace),
        "from": trace.from,
        "to": trace.to,
        "packet": trace.packet,
        "notes": trace.notes,
        "causes": trace.findings,
        "problems": trace.problems,
        "delivered": trace.delivered.iter().map(delivery).collect::<Vec<_>>(),
        "dropped": trace.dropped.iter().map(drop).collect::<Vec<_>>(),
        "answers": trace.responses.iter().map(response).collect::<Vec<_>>(),
        "hops": trace.hops.iter().map(hop).collect::<Vec<_>>(),
    });
    if !trace.not_in_force.is_empty() {
        object["not_in_force"] = json!(trace.not_in_force);
    }
    if trace.live.is_some() {
        object["live"] = crate::live::to_json(trace);
    }
    object
}

fn delivery(one: &Delivery) -> Json {
    let changes: Vec<Json> = one
        .changes
        .iter()
        .map(|(field, before, after)| json!({"field": field, "before": before, "after": after}))
        .collect();
    json!({"port": one.port, "node": one.host, "changes": changes})
}

fn drop(drop: &Drop) -> Json {
    let mut object = match &drop.cause {
        Cause::Flow(at) => json!({"cause": "flow", "at": lookup(at)}),
        Cause::Missing(at, near) => {
            json!({"cause": "no-flow", "at": lookup(at), "nearest": near.iter().map(nearest).collect::<Vec<_>>()})
        }
        Cause::Problem(at, why) => json!({"cause": "no-effect", "at": lookup(at), "why": why}),
        Cause::NoRow { what, why_not, .. } => json!({"cause": "no-row", "why": what, "why_not": why_not}),
        Cause::Fault(why) => json!({"cause": "fault", "why": why}),
    };
    object["node"] = if drop.host.is_empty() { Json::Null } else { json!(drop.host) };
    object["because"] = leaves(&drop.because);
    let written = |(asked, at, because): &(String, LookupView, Vec<Leaf>)| json!({"asked": asked, "at": lookup(at), "because": leaves(because)});
    object["written"] = drop.written.iter().map(written).collect();
    object
}

fn response(response: &Response) -> Json {
    let (kind, what, ends) = match &response.responded {
        Responded::Answers { kind, what, ends, .. } => (Some(kind.name()), Some(what), *ends),
        Responded::Silent(_) | Responded::Unreadable(_) | Responded::NotAsked => (None, None, None),
    };
    json!({
        "node": response.host,
        "kind": kind,
        "text": what,
        "from": ends.map(|(from, _)| from),
        "to": ends.map(|(_, to)| to),
        "silence": response.silence(),
        "at": lookup(&response.at),
        "because": leaves(&response.because),
    })
}

fn nearest(near: &Nearest) -> Json {
    let unmet: Vec<Json> =
        near.unmet.iter().map(|(asked, found)| json!({"asked": asked, "found": found})).collect();
    json!({"flow": flow(&near.flow), "unmet": unmet, "because": leaves(&near.because)})
}

fn leaves(leaves: &[Leaf]) -> Json {
    leaves
        .iter()
        .map(|leaf| {
            let mut object = json!({"what": leaf.what, "row": leaf.row});
            Origin::add_to(leaf.origin.as_ref(), "transaction", &mut object);
            object
        })
        .collect()
}

fn hop(hop: &Hop) -> Json {
    json!({"node": hop.host, "before": hop.before, "steps": hop.lines.iter().map(line).collect::<Vec<_>>()})
}

fn line(line: &Line) -> Json {
    match line {
        Line::Lookup(at) => json!({"lookup": lookup(at)}),
        Line::Bucket(id) => json!({"bucket": id}),
        Line::Action(action) => json!({"action": action}),
        Line::Sent(port) => json!({"sent": port}),
        Line::Note(text) => json!({"note": text}),
        Line::Problem(text) => json!({"problem": text}),
    }
}

fn lookup(at: &LookupView) -> Json {
    json!({"table": at.table, "stage": at.stage, "sentence": at.stage_doc, "datapath": at.datapath, "flow": at.flow.as_ref().map(flow), "decided_by": at.decided_by, "ends": at.ends})
}

fn flow(flow: &FlowView) -> Json {
    json!({
        "priority": flow.priority,
        "priority_name": flow.priority_name,
        "sentence": flow.sentence,
        "match": flow.matching,
        "actions": flow.actions,
        "text": flow.text,
        "rule": flow.rule,
        "placed_by": flow.placed_by,
    })
}
