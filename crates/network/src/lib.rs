//! Network objects: types, validation, YAML and JSON, and how they become input rows.
