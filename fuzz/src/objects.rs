//! Network objects, as files that `weft apply` takes.

use std::sync::LazyLock;

use nlog::{Sources, compile};
use objects::{Batch, Cancel, Kinds, ObjectStore};

use crate::decode;

/// The kinds of the built-in rules.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let sources = Sources::from_texts([
        ("objects.nlog", include_str!("../../rules/interface/objects.nlog")),
        ("types.nlog", include_str!("../../rules/interface/types.nlog")),
    ]);
    let compilation = compile(&sources);
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    assert!(!program.objects.is_empty(), "the rules declare no kind");
    Kinds::new(program.objects.clone())
});

/// A text as objects of each format. Accepted objects are read back as they are written.
pub fn objects(text: &str) {
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
