//! Kinds of a package, which no Rust knows, belong to tenants by facts alone.

use objects::{Cancel, ObjectKey};

use super::*;
use crate::test_core;

const RULES: &str = r#"
object node { }
output table switch_address(hv: ref node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
object tenant { ids: opt<string>; }
object site { tenant: opt<string>; limit: int = 0; }
object rack { site: ref site; }
object cable { from: ref rack; to: opt<ref rack>; }
object floor { site: opt<ref site>; }
forbid table refuse(kind: string, id: string, path: string, text: string);
refuse("site", site, "limit", "is less than that of site " ++ other) :-
    site(id: site, limit: limit, ..),
    site(id: other, limit: greater, ..),
    limit + 100 < greater;
output table problem(kind: string, id: string, code: string, text: string);
problem("site", site, "crowded", "shares its limit with site " ++ other) :-
    site(id: site, limit: 7, ..),
    site(id: other, limit: 7, ..),
    site != other;
table belongs_by(kind: string, field: string) key(kind, field);
belongs_by("tenant", "id");
belongs_by("site", "tenant");
belongs_by("rack", "site");
belongs_by("cable", "from");
belongs_by("cable", "to");
"#;

fn core() -> Core {
    let mut core = test_core::core(&test_core::rules(RULES), [], SystemTime::UNIX_EPOCH);
    for object in [
        r#"{"kind": "tenant", "id": "acme", "ids": "a-"}"#,
        r#"{"kind": "site", "id": "a", "tenant": "acme"}"#,
        r#"{"kind": "site", "id": "b", "tenant": "umbra"}"#,
        r#"{"kind": "site", "id": "none"}"#,
        r#"{"kind": "rack", "id": "ra", "site": "a"}"#,
        r#"{"kind": "rack", "id": "rb", "site": "b"}"#,
        r#"{"kind": "cable", "id": "c-aa", "from": "ra", "to": "ra"}"#,
        r#"{"kind": "cable", "id": "c-ab", "from": "ra", "to": "rb"}"#,
        r#"{"kind": "cable", "id": "c-a", "from": "ra"}"#,
        r#"{"kind": "floor", "id": "f", "site": "a"}"#,
    ] {
        test_core::apply(&mut core, object, SystemTime::UNIX_EPOCH);
    }
    core
}

/// The refusal of an object that acme applies, or nothing.
fn refused(core: &mut Core, object: &str) -> String {
    let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
    batch.add_json("test", object);
    let by = Origin { tenant: Some("acme".to_owned()), ..Origin::from("test") };
    core.apply(batch, by, SystemTime::UNIX_EPOCH).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn an_object_belongs_to_the_tenant_that_all_its_fields_lead_to() {
    let core = core();
    for (kind, id, tenant) in [
        ("tenant", "acme", Some("acme")),
        ("site", "a", Some("acme")),
        ("site", "b", Some("umbra")),
        ("site", "none", None),
        ("rack", "ra", Some("acme")),
        ("cable", "c-aa", Some("acme")),
        ("cable", "c-ab", None),
        ("cable", "c-a", Some("acme")),
        ("floor", "f", None),
    ] {
        let object: &Arc<Object> = core.objects().get(&ObjectKey::new(kind, id)).unwrap();
        assert_eq!(core.tenant_of(object).as_deref(), tenant, "{kind} {id}");
    }
    assert_eq!(core.count_of_tenant("acme"), 4);
}

#[test]
fn a_tenant_makes_what_belongs_to_it() {
    let mut core = core();
    for object in [
        r#"{"kind": "site", "id": "a-1", "tenant": "acme"}"#,
        r#"{"kind": "rack", "id": "a-r", "site": "a-1"}"#,
        r#"{"kind": "cable", "id": "a-c", "from": "a-r", "to": "ra"}"#,
    ] {
        assert_eq!(refused(&mut core, object), "", "{object}");
    }
    for (object, why) in [
        (
            r#"{"kind": "floor", "id": "a-f", "site": "a"}"#,
            "objects of this kind are those of operators; ask one",
        ),
        (r#"{"kind": "cable", "id": "a-d", "from": "ra", "to": "rb"}"#, "to: rack rb does not exist"),
        (r#"{"kind": "site", "id": "a-2"}"#, "tenant: must say that the object belongs to tenant acme"),
        (
            r#"{"kind": "site", "id": "a", "tenant": "umbra"}"#,
            "tenant: must say that the object belongs to tenant acme",
        ),
    ] {
        let error = refused(&mut core, object);
        assert!(error.contains(why), "{object}: {error}");
    }
}

/// A rule may compare objects of different tenants. What it says of those of others is not told.
#[test]
fn a_refusal_that_names_what_belongs_to_others_is_told_without_it() {
    let mut core = core();
    test_core::apply(
        &mut core,
        r#"{"kind": "site", "id": "b", "tenant": "umbra", "limit": 90}"#,
        SystemTime::UNIX_EPOCH,
    );
    for object in [
        r#"{"kind": "site", "id": "a", "tenant": "acme", "limit": -50}"#,
        r#"{"kind": "site", "id": "a", "tenant": "acme", "limit": 200}"#,
    ] {
        let error = refused(&mut core, object);
        assert!(
            error.contains("contradicts objects that are not of tenant acme; ask an operator"),
            "{error}"
        );
        assert!(!error.contains("site b") && !error.contains("none"), "{error}");
    }
}

#[test]
fn a_tenant_that_nobody_declares_can_be_refused() {
    let mut core = core();
    core.require_declared_tenants(true);
    let mut change = |text: &str| {
        let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
        batch.add_document("test", text);
        let result = core.apply(batch, "test", SystemTime::UNIX_EPOCH);
        result.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        change("{kind: site, id: s, tenant: acne}"),
        "test:1: site s: tenant: tenant acne is not declared; apply it first, or in the same request"
    );
    // What was there before stays, until it changes.
    assert_eq!(change("{kind: rack, id: r, site: b}"), "");
    assert!(change("{kind: site, id: b, tenant: umbra, limit: 1}").contains("tenant umbra is not declared"));
    assert_eq!(change("{kind: tenant, id: umbra}\n---\n{kind: site, id: b, tenant: umbra, limit: 1}"), "");
    assert!(
        change("{kind: tenant, id: umbra, delete: true}").contains("is in use by site b; delete the objects")
    );
    let both = "{kind: tenant, id: umbra, delete: true}\n---\n{kind: site, id: b}";
    assert_eq!(change(both), "");
    let named = "{kind: tenant, id: acme, delete: true}\n---\n{kind: site, id: a, tenant: acme, limit: 1}";
    assert!(change(named).contains("site a: tenant: tenant acme is not declared"));
}

#[test]
fn problems_are_told_without_what_belongs_to_others() {
    let mut core = core();
    let now = SystemTime::UNIX_EPOCH;
    test_core::apply(&mut core, r#"{"kind": "site", "id": "b", "tenant": "umbra", "limit": 7}"#, now);
    let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
    batch.add_json("test", r#"{"kind": "site", "id": "a", "tenant": "acme", "limit": 7}"#);
    let by = Origin { tenant: Some("acme".to_owned()), ..Origin::from("test") };
    let accepted = core.apply(batch, by, now).unwrap();
    let new = accepted.transaction.unwrap().problems.new;
    assert_eq!(new.len(), 2);
    let told = core.problems_of_tenant(&new, &accepted.objects, "acme");
    let told: Vec<_> = told.iter().map(|problem| (&*problem.id, &*problem.text)).collect();
    assert_eq!(told, [("a", "concerns objects that are not of tenant acme too; ask an operator")]);
}
