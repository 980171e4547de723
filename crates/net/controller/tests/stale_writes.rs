//! Writes of objects that have changed since they were read, over HTTP.

use serde_json::json;

use crate::http::serve;

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_write_is_refused() {
    let (_folder, running, mut web) = serve().await;
    let path = "/v1/switches/blue";
    let with =
        |name: &'static str, value: &'static str| [("content-type", "application/json"), (name, value)];
    web.ask("PUT", path, &with("if-none-match", "*"), "{}").await.expect(201);
    let exists = web.ask("PUT", path, &with("if-none-match", "*"), "{}").await.expect(412);
    assert_eq!((&exists["code"], &exists["faults"][0]["code"]), (&json!("stale"), &json!("stale")));
    web.ask("PUT", path, &with("if-match", "\"1\""), r#"{"tenant": "a"}"#).await.expect(200);
    web.ask("PUT", path, &with("if-match", "\"1\""), r#"{"tenant": "b"}"#).await.expect(412);
    web.ask("PATCH", path, &with("if-match", "\"1\""), r#"{"tenant": "b"}"#).await.expect(412);
    web.ask("DELETE", path, &with("if-match", "\"1\""), "").await.expect(412);
    // A revision in the object is no condition of HTTP.
    web.put(path, r#"{"tenant": "b", "revision": 1}"#).await.expect(409);
    web.patch(path, r#"{"tenant": "b", "revision": 1}"#).await.expect(409);
    assert_eq!(web.get(path).await.expect(200)["tenant"], "a");
    web.ask("PUT", path, &with("if-match", "nonsense"), "{}").await.expect(400);
    web.ask("DELETE", path, &with("if-match", "\"2\""), "").await.expect(200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_who_changed_the_object_and_what() {
    let (_folder, running, mut web) = serve().await;
    let path = "/v1/switches/blue";
    let with =
        |name: &'static str, value: &'static str| [("content-type", "application/json"), (name, value)];
    web.ask("PUT", path, &with("if-none-match", "*"), "{}").await.expect(201);
    web.ask("PUT", path, &with("if-match", "\"1\""), r#"{"tenant": "a"}"#).await.expect(200);
    web.ask("PATCH", path, &with("weft-by", "bob"), r#"{"labels": {"tier": "one"}}"#).await.expect(200);
    let changed = json!([
        {"field": "tenant", "after": "a", "left_out": false},
        {"field": "labels.tier", "after": "one", "left_out": false},
    ]);
    let conditional = web.ask("DELETE", path, &with("if-match", "\"1\""), "").await.expect(412);
    let plain = web.patch(path, r#"{"tenant": "b", "revision": 1}"#).await.expect(409);
    let document = r#"{"kind": "switch", "id": "blue", "revision": 1}"#;
    let applied = web.ask("POST", "/v1/apply", &with("accept", "*/*"), document).await.expect(409);
    for answer in [&conditional, &plain, &applied] {
        assert_eq!(answer["object"], json!({"kind": "switch", "id": "blue"}), "{answer}");
        let said = [&answer["revision"], &answer["changed_by"], &answer["compared_with"]];
        assert_eq!(said, [&json!(3), &json!("bob"), &json!(1)], "{answer}");
        assert_eq!(
            (&answer["fields"], &answer["faults"][0]["changed"]["fields"]),
            (&changed, &changed),
            "{answer}"
        );
        let text = format!(
            "bob changed it last, at {}; since 1: tenant: none -> \"a\"",
            answer["changed_at"].as_str().unwrap()
        );
        assert!(answer["detail"].as_str().unwrap().contains(&text), "{answer}");
    }
    web.ask("PUT", path, &with("if-match", "\"3\""), r#"{"tenant": "a"}"#).await.expect(200);
    let never = web.ask("PUT", path, &with("if-match", "\"2000\""), "{}").await.expect(412);
    assert_eq!((&never["revision"], never.get("compared_with")), (&json!(4), None), "{never}");
    web.ask("DELETE", path, &with("weft-by", "eve"), "").await.expect(200);
    let gone = web.ask("PUT", path, &with("if-match", "\"4\""), "{}").await.expect(412);
    assert_eq!((&gone["revision"], &gone["changed_by"]), (&json!(0), &json!("eve")), "{gone}");
    running.stop().await;
}
