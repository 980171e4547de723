//! Network objects, as files that `weft apply` takes.

use network::{Batch, ObjectStore};

/// A text as objects of each format. Accepted objects are read back as they are written.
pub fn objects(text: &str) {
    for name in ["net.yaml", "net.json", "standard input"] {
        let mut batch = Batch::default();
        batch.add_document(name, text);
        let mut store = ObjectStore::default();
        match store.plan(batch) {
            Ok(changes) => {
                let _rows = changes.rows();
                store.commit(&changes);
                for (_, object) in store.iter() {
                    let (mut yaml, mut json) = (Batch::default(), Batch::default());
                    yaml.add_document("written.yaml", &object.to_yaml());
                    json.add_document("written.json", &object.to_json());
                    for batch in [yaml, json] {
                        let written = batch.entries().first().map(|entry| &entry.object);
                        assert_eq!(written, Some(&**object), "an object is not read as it was written");
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
