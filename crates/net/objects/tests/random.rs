//! Random kinds and documents: texts and objects agree, and no document breaks anything.

use nlog_data::Value;
use objects::{Batch, Cancel, FaultCode, Kinds, ObjectStore};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::support::json_schema::accepts;
use crate::support::random::{Mutation, any_document, any_kinds, any_mutation, mutate};

type Documents = Vec<(Json, Vec<Value>)>;

fn world() -> impl Strategy<Value = (Kinds, Documents)> {
    any_kinds().prop_flat_map(|kinds| {
        let documents = prop::collection::vec(any_document(&kinds), 1..4);
        (Just(kinds), documents)
    })
}

fn read(kinds: &Kinds, name: &str, text: &str) -> Batch {
    let mut batch = Batch::new(kinds, Cancel::default());
    batch.add_document(name, text);
    batch
}

/// The messages of all faults of a batch.
fn faults(kinds: &Kinds, batch: Batch) -> Vec<(FaultCode, String)> {
    let store = ObjectStore::new(kinds);
    let faults = store.plan(batch).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.code, fault.message)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_a_document_says_is_read_and_printed((kinds, documents) in world()) {
        let schema = kinds.json_schema();
        for (document, row) in documents {
            let batch = read(&kinds, "net.json", &document.to_string());
            let Some(entry) = batch.entries().first() else {
                panic!("{document} is refused: {:?}", faults(&kinds, batch));
            };
            prop_assert_eq!(entry.object.row(), &*row, "{}", document);
            prop_assert!(accepts(&schema, &document), "{document} against {schema}");
            let (json, yaml) = (entry.object.to_json(), entry.object.to_yaml());
            for (name, text) in [("net.json", &json), ("net.yaml", &yaml)] {
                let printed = read(&kinds, name, text);
                let again = printed.entries().first().map(|entry| &entry.object);
                prop_assert_eq!(again, Some(&entry.object), "{}", text);
            }
            prop_assert!(accepts(&schema, &json.parse().unwrap()), "{json} against {schema}");
        }
    }

    /// A mutated document is an object or has faults that say why not. The JSON Schema accepts every object, and has no
    /// other opinion about the form.
    #[test]
    fn mutated_documents_are_objects_or_faults(
        (kinds, documents) in world(),
        mutations in prop::collection::vec(any_mutation(), 1..4),
    ) {
        let mut document: Json = documents[0].0.clone();
        for mutation in mutations {
            mutate(&mut document, mutation);
        }
        let schema = kinds.json_schema();
        // A list at the top is a list of objects.
        let documents = match document {
            Json::Array(documents) => documents,
            document => vec![document],
        };
        for document in documents {
            let text = document.to_string();
            let batch = read(&kinds, "net.json", &text);
            let is_read = !batch.entries().is_empty() || batch.deletions().is_ok_and(|deletions| !deletions.is_empty())
                && faults(&kinds, read(&kinds, "net.json", &text)).is_empty();
            let is_accepted = accepts(&schema, &document);
            if is_read {
                prop_assert!(is_accepted, "{document} is read, but {schema}");
                continue;
            }
            let faults = faults(&kinds, batch);
            if let Json::Array(_) = document {
                continue;
            }
            prop_assert!(!faults.is_empty());
            for (code, message) in faults {
                prop_assert!(!message.is_empty());
                let is_formal = match code {
                    FaultCode::BadValue => message.starts_with("must be ") || message.contains(" is not one of "),
                    code => code != FaultCode::Duplicate,
                };
                prop_assert!(!is_formal || !is_accepted, "{document}: {message}, but {schema}");
            }
        }
    }

    #[test]
    fn a_refused_batch_changes_nothing(
        (kinds, documents) in world(),
        more in prop::collection::vec((any::<prop::sample::Index>(), any_mutation()), 0..4),
    ) {
        let mut store = ObjectStore::new(&kinds);
        let mut steps: Vec<Json> = documents.iter().map(|(document, _)| document.clone()).collect();
        for (which, mutation) in more {
            let mutation: Mutation = mutation;
            let mut document = documents[which.index(documents.len())].0.clone();
            mutate(&mut document, mutation);
            steps.push(document);
        }
        for at in 0..steps.len() {
            let before: Vec<String> = store.iter().map(|(_, object)| object.to_json()).collect();
            let batch = read(&kinds, "net.json", &Json::from(&steps[at..]).to_string());
            match store.plan(batch) {
                Err(faults) => prop_assert!(!faults.is_empty()),
                Ok(changes) => {
                    store.commit(&changes);
                    let all: Vec<String> = store.iter().map(|(_, object)| object.to_yaml()).collect();
                    let again = store.plan(read(&kinds, "all.yaml", &all.join("---\n")));
                    prop_assert!(again.is_ok_and(|changes| changes.is_empty()), "{all:?}");
                    if at % 2 == 0 {
                        continue;
                    }
                    store.commit(&changes.inverse());
                }
            }
            let after: Vec<String> = store.iter().map(|(_, object)| object.to_json()).collect();
            prop_assert_eq!(before, after);
        }
    }
}
