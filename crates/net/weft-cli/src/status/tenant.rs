//! `weft status --tenant`: the objects of a tenant that are not up, and what of them is not, down to the reasons.

use nlog_data::quotation::cut;
use serde_json::{Value as Json, json};
use weft_client::pb::{ObjectRef, TenantStatus};
use weft_client::{Client, ClientError};
use weft_core::shown;

use crate::client::{Address, failed, unreadable};
use crate::exit::{Failure, print_as};

/// The most levels below a tenant. There are three, unless a package declares members of members.
const DEPTH_MAX: usize = 8;

/// Prints what is up of a tenant. With `check`, a tenant that is not up is not in force.
pub(super) fn run(address: &Address, tenant: &str, json: bool, check: bool) -> Result<(), Failure> {
    address.with(|mut client| async move {
        let status = client.tenant(tenant).await.map_err(failed)?;
        let status = status
            .ok_or_else(|| Failure::Rejected(format!("no object has tenant `{}`", shown(&cut(tenant)))))?;
        let TenantStatus { tenant, up, members, members_up, not_up } = status;
        let tree = json!({"tenant": tenant, "up": up, "members": members, "members_up": members_up});
        let tree = with_members(&mut client, tree, not_up, 1).await?;
        let text = if json { format!("{tree}\n") } else { text(&tree, 0) };
        print_as(json, &text)?;
        if check && !up { Err(Failure::NotInForce) } else { Ok(()) }
    })
}

/// A tenant or an object, with the first members that are not up, each with its own members.
async fn with_members(
    client: &mut Client,
    mut tree: Json,
    not_up: Vec<ObjectRef>,
    depth: usize,
) -> Result<Json, Failure> {
    let mut below = Vec::new();
    for ObjectRef { kind, id } in not_up {
        let seen = match client.get_with_states(&kind, Some(&id)).await {
            // It was deleted meanwhile.
            Err(ClientError::NotFound(_)) => continue,
            seen => seen.map_err(failed)?,
        };
        let state = seen.first().map(|(_, state)| serde_json::from_str::<Json>(&state.columns));
        let state = state.transpose().map_err(unreadable)?.unwrap_or_default();
        let mut member = json!({"kind": kind, "id": id});
        for name in ["up", "why", "members", "members_up"] {
            if let Some(value) = state.get(name) {
                member[name] = value.clone();
            }
        }
        let not_up = texts(&state["not_up"]).filter_map(|member| member.split_once(' '));
        let not_up = not_up.map(|(kind, id)| ObjectRef { kind: kind.to_owned(), id: id.to_owned() });
        let not_up = if depth < DEPTH_MAX { not_up.collect() } else { Vec::new() };
        below.push(Box::pin(with_members(client, member, not_up, depth + 1)).await?);
    }
    if !below.is_empty() {
        tree["not_up"] = below.into();
    }
    Ok(tree)
}

fn texts(list: &Json) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// A line for each, indented below what it is a member of.
fn text(tree: &Json, depth: usize) -> String {
    let part = |name: &str| shown(tree[name].as_str().unwrap_or_default());
    let name = match tree["tenant"].as_str() {
        Some(_) => format!("tenant {}", part("tenant")),
        None => format!("{} {}", part("kind"), part("id")),
    };
    let why: Vec<_> = texts(&tree["why"]).map(shown).collect();
    let count = |name: &str| tree[name].as_u64().unwrap_or_default();
    let said = match tree["up"].as_bool() {
        Some(true) => "up".to_owned(),
        _ if why.is_empty() => format!("not up: {} of {} are", count("members_up"), count("members")),
        _ => format!("not up: {}", why.join("; ")),
    };
    let mut lines = format!("{}{name}: {said}\n", INDENT.repeat(depth));
    let below = tree["not_up"].as_array().map_or(&[][..], Vec::as_slice);
    lines.extend(below.iter().map(|branch| text(branch, depth + 1)));
    let down = count("members").saturating_sub(count("members_up"));
    if let Some(more) = down.checked_sub(below.len() as u64).filter(|more| *more > 0) {
        lines += &format!("{}and {more} more\n", INDENT.repeat(depth + 1));
    }
    lines
}

const INDENT: &str = "    ";
