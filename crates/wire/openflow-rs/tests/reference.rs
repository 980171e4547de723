//! The book's page of fields and actions is complete and matches the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use openflow_rs::Field;
use openflow_rs::literal::{Accepts, ActionInfo, Context, FieldName, Kind, Parameter, field_names};

/// The beginning of the page.
const HEAD: &str = r"# OpenFlow in nlog

This page is generated from the tables of fields and actions in `openflow-rs`. Tests check the tables against Open vSwitch and compile every example.

The [language reference](language.md#openflow-literals) explains literals. In short:

```nlog file=openflow.nlog
input table vm(port: int, label: int, mac: mac, ip: ip) key(port);
output table example(match: match, actions: actions);

example(match{in_port: port, eth_dst: mac, reg5[0..15]: 0x10/0x10}, actions[set(reg15, label), resubmit(32)]) :-
    vm(port, label, mac, _);

example(match{tcp, ip_src: ip, tcp_dst: 80}, actions[dec_ttl, output(port)]) :- vm(port, _, _, ip);
```

## Match keywords

A keyword has no value and selects a kind of packet. Fields of a protocol need its keyword in the same match:

";

const FIELDS: &str = r"

## Fields

- *Type*: `int`, `mac`, `ip`, `net` (an address prefix), or `text`, a string constant in the notation of `ovs-ofctl`: flags such as `+trk+est-rel`, or the fragment
  types of `ip_frag`.
- *Maskable*: a match may give `value/mask`, or select bits: `reg0[0..15]`.
- *Writable*: actions such as `set` can write the field.
- *Requires*: the keyword or field that the same match must contain.

`ip_src`, `ip_dst`, `tun_src`, `tun_dst`, `ct_nw_src` and `ct_nw_dst` accept addresses of both IP versions and need no keyword: the address implies the version.
`tp_src`, `tp_dst` and the `nw_…` names stand for the field of the protocol in the same match.

| names | bits | type | maskable | writable | requires |
|---|---|---|---|---|---|
";

const ACTIONS: &str = r"
## Actions

Arguments are positional or named: `ct(commit, zone: 5)`. A parameter shown as *name: …* must be named. `?` marks optional parameters, and `…` parameters that
may be repeated. The comment of an example shows the action as Open vSwitch prints it.

Some actions are for packets of a protocol, which the flow's own match must select: `dec_ttl`, `mod_nw_ttl` and `ct` need `ip` or `ipv6`, and whatever reads or
writes a field needs the keyword that the field requires. Otherwise Open vSwitch refuses the flow (`OFPBAC_MATCH_INCONSISTENT`). The compiler does not check it, because match
and actions may come from different rules.

";

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "int",
        Kind::Mac => "mac",
        Kind::Ip => "ip",
        Kind::Net => "net",
        Kind::Text => "text",
    }
}

/// The row of a name, without the name itself; consecutive registers share it.
fn row_of(name: &FieldName) -> Option<String> {
    let (field, wanted) = (name.field?, name.wanted.as_ref()?);
    let info = field.info();
    let takes: Vec<&str> = wanted.kinds.iter().map(|&found| kind(found)).collect();
    let yes = |holds: bool| if holds { "yes" } else { "" };
    let needs = info.prerequisite.to_string();
    let needs = if needs == "nothing" { String::new() } else { needs };
    Some(format!(
        "{} | {} | {} | {} | {needs}",
        info.bits,
        takes.join(", "),
        yes(wanted.masked),
        yes(info.writable)
    ))
}

/// `reg` of `reg12`, and 12.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if !stem.ends_with("reg") {
        return None;
    }
    Some((stem, name[stem.len()..].parse().ok()?))
}

fn fields(page: &mut String) {
    let names: Vec<FieldName> = field_names().collect();
    let words: Vec<String> =
        names.iter().filter(|name| name.field.is_none()).map(|name| format!("`{}`", name.name)).collect();
    page.push_str(&words.join(" "));
    page.push_str(FIELDS);
    let mut by_field: BTreeMap<Field, Vec<&FieldName>> = BTreeMap::new();
    for name in &names {
        if let Some(field) = name.field {
            by_field.entry(field).or_default().push(name);
        }
    }
    let mut shown: Vec<(String, String)> = Vec::new();
    for field in Field::all() {
        let Some(names) = by_field.get(&field) else { continue };
        let mut rows: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in names {
            rows.entry(row_of(name).unwrap_or_default()).or_default().push(name.name);
        }
        for (row, names) in rows {
            // Consecutive registers are one line.
            if let ([name], Some((last, last_row))) = (&names[..], shown.last_mut())
                && *last_row == row
                && let (Some((stem, number)), first) =
                    (numbered(name), last.split(" … ").next().unwrap_or(""))
                && numbered(first.trim_matches('`')).is_some_and(|(known, _)| known == stem)
                && number > 0
            {
                *last = format!("{first} … `{name}`");
                continue;
            }
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            shown.push((names.join(" "), row));
        }
    }
    for (names, row) in shown {
        let _ = writeln!(page, "| {names} | {row} |");
    }
}

fn place(context: Context) -> &'static str {
    match context {
        Context::Flow => "a flow",
        Context::Clone => "`clone`",
        Context::ActionSet => "`write_actions`",
        Context::Ct => "`ct`",
        Context::Exec => "`exec`",
        Context::Learn => "`learn`",
    }
}

fn takes(parameter: &Parameter) -> String {
    match parameter.accepts {
        Accepts::Number { max, masked, .. } => {
            format!("a number up to {max}{}", if masked { ", optionally with `/mask`" } else { "" })
        }
        Accepts::Port => "a port number".into(),
        Accepts::Address => "an address".into(),
        Accepts::ValueOf { field, masked } => {
            format!("a value for `{field}`{}", if masked { ", optionally with `/mask`" } else { "" })
        }
        Accepts::Field { written: true } => "a field to write, or bits of it".into(),
        Accepts::Field { written: false } => "a field to read, or bits of it".into(),
        Accepts::Flag => "a flag".into(),
        Accepts::Actions(_) => "actions".into(),
        Accepts::Text { what } => format!("text: {what}"),
    }
}

fn signature(action: &ActionInfo) -> String {
    let parameter = |parameter: &Parameter| {
        let colon =
            if parameter.positional || matches!(parameter.accepts, Accepts::Flag | Accepts::Actions(_)) {
                ""
            } else {
                ": …"
            };
        let optional = if parameter.required { "" } else { "?" };
        let repeated = if parameter.repeated { "…" } else { "" };
        format!("{}{colon}{optional}{repeated}", parameter.name)
    };
    if action.parameters.is_empty() {
        return action.name.to_owned();
    }
    let parameters: Vec<String> = action.parameters.iter().map(parameter).collect();
    format!("{}({})", action.name, parameters.join(", "))
}

/// The keyword without which a switch refuses a flow with these actions.
fn keyword(actions: &str) -> &'static str {
    if actions.contains("arp_spa") {
        "arp"
    } else if actions.contains("copy(tcp_src") {
        "tcp"
    } else if actions.starts_with("ct(") && actions.contains("fd00::") {
        "ipv6"
    } else if ["dec_ttl", "mod_nw_ttl", "ct("].iter().any(|name| actions.starts_with(name)) {
        "ip"
    } else {
        ""
    }
}

fn actions(page: &mut String) {
    let mut last = "";
    for action in ActionInfo::all() {
        // A name may have an entry for each context.
        if action.name != last {
            let _ = writeln!(page, "### {}\n", action.name);
        }
        last = action.name;
        let places: Vec<&str> = action.contexts.iter().map(|&context| place(context)).collect();
        let _ =
            writeln!(page, "`{}`, allowed in {}\n\n{}\n", signature(action), places.join(", "), action.doc);
        for parameter in action.parameters {
            let _ = writeln!(page, "- `{}`: {}. {}", parameter.name, takes(parameter), parameter.doc);
        }
        if !action.parameters.is_empty() {
            page.push('\n');
        }
        if action.examples.is_empty() {
            continue;
        }
        page.push_str("```nlog fragment\n");
        for (written, printed) in action.examples {
            let _ =
                writeln!(page, "example(match{{{}}}, actions[{written}]);   # {printed}", keyword(written));
        }
        page.push_str("```\n\n");
    }
}

/// `UPDATE_EXPECT=1` rewrites the page.
#[test]
fn the_page_of_fields_and_actions_is_up_to_date() {
    let mut page = HEAD.to_owned();
    fields(&mut page);
    page.push_str(ACTIONS);
    actions(&mut page);
    let page = format!("{}\n", page.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/openflow.md");
    expect_test::expect_file![path].assert_eq(&page);
    // Every name of the tables must be on the page.
    for name in field_names().filter(|name| numbered(name.name).is_none()) {
        assert!(page.contains(&format!("`{}`", name.name)), "{} is not on the page", name.name);
    }
}
