//! Network objects, as files that `weft apply` takes.

use std::collections::BTreeSet;
use std::panic;
use std::sync::{Arc, LazyLock};

use nlog::{Sources, compile};
use objects::{Batch, Cancel, Kinds, Object, ObjectStore};

use crate::decode;

/// The kinds of the built-in rules.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    // libFuzzer ends the process in its hook, before a panic can be caught. Those of the parser of YAML are, and become faults.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_caught = info.location().is_some_and(|place| place.file().contains("/libyaml-safer-"));
        if !is_caught {
            hook(info);
        }
    }));
    let sources = Sources::from_texts([
        ("objects.nlog", include_str!("../../../../rules/interface/objects.nlog")),
        ("types.nlog", include_str!("../../../../rules/interface/types.nlog")),
    ]);
    let compilation = compile(&sources);
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    assert!(!program.objects.is_empty(), "the rules declare no kind");
    Kinds::new(program.objects.clone())
});

/// A text as objects of each format. Accepted objects are read back as they are written.
pub fn objects(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let kinds = &*KINDS;
    for name in ["net.yaml", "net.json", "standard input"] {
        let mut batch = Batch::new(kinds, Cancel::default());
        decode(name, text.len(), || batch.add_document(name, text));
        let mut store = ObjectStore::new(kinds);
        match store.plan(batch) {
            Ok(changes) => {
                let _rows = changes.rows();
                store.commit(&changes);
                for (_, object) in store.iter() {
                    for (name, text) in
                        [("written.yaml", object.to_yaml()), ("written.json", object.to_json())]
                    {
                        let mut batch = Batch::new(kinds, Cancel::default());
                        batch.add_document(name, &text);
                        let written = batch.entries().first().map(|entry| &entry.object);
                        assert_eq!(written, Some(object), "an object is not read as it was written");
                    }
                }
            }
            Err(faults) => {
                assert!(!faults.is_empty());
                for fault in faults {
                    assert!(!fault.to_string().is_empty());
                }
            }
        }
    }
}

/// A network for patches: an object of most forms of fields, and those that they name.
const NETWORK: &str = include_str!("../../../../examples/three-tiers.yaml");

/// The objects of [`NETWORK`].
static OBJECTS: LazyLock<Vec<Arc<Object>>> = LazyLock::new(|| {
    let mut batch = Batch::new(&KINDS, Cancel::default());
    batch.add_document("network.yaml", NETWORK);
    batch.entries().iter().map(|entry| entry.object.clone()).collect()
});

/// A text as the body of a request about one object: a merge patch of one that is there, and the whole of one that the path names. What
/// is accepted is read back as it is written.
pub fn merge(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let mut of_kinds = BTreeSet::new();
    for object in OBJECTS.iter() {
        let key = object.key();
        if !of_kinds.insert(key.kind.clone()) {
            continue;
        }
        let mut patched = Batch::new(&KINDS, Cancel::default());
        decode("a patch", text.len(), || patched.merge(object, text));
        let mut named = Batch::new(&KINDS, Cancel::default());
        decode("a body", text.len(), || named.add_named("body", text, &key.kind, &key.id));
        for batch in [patched, named] {
            for entry in batch.entries() {
                let mut again = Batch::new(&KINDS, Cancel::default());
                again.add_document("written.json", &entry.object.to_json());
                let again = again.entries().first().map(|entry| &entry.object);
                assert_eq!(again, Some(&entry.object), "an object is not read as it was written");
            }
        }
    }
}
