//! The embedded world: complete, parsed, named.
use kvplan::catalog::{self, Shelf};
use std::path::Path;

fn folder(name: &str) -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("models")
        .join(name);
    let mut ids: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| p.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    ids.sort();
    ids
}

#[test]
fn the_table_lists_every_file() {
    assert_eq!(folder("architectures"), catalog::model_ids());
    assert_eq!(folder("hardware"), catalog::hardware_ids());
    assert_eq!(folder("runtimes"), catalog::runtime_ids());
}

/// The head that lookups scan must say what the parsed file says; no name may mean two things.
#[test]
fn every_entry_parses_and_every_name_is_its_own() {
    let mut taken = std::collections::BTreeSet::new();
    let mut all: Vec<(Shelf, String, String, Vec<String>)> = Vec::new();
    for id in catalog::model_ids() {
        let m = catalog::model(id).unwrap();
        all.push((Shelf::Models, id.into(), m.id, m.aliases));
    }
    for id in catalog::hardware_ids() {
        let h = catalog::hardware(id).unwrap();
        all.push((Shelf::Hardware, id.into(), h.id, h.aliases));
    }
    for id in catalog::runtime_ids() {
        all.push((
            Shelf::Runtimes,
            id.into(),
            catalog::runtime(id).unwrap().id,
            vec![],
        ));
    }
    for (shelf, id, parsed, aliases) in all {
        assert_eq!(id, parsed);
        for name in std::iter::once(&id).chain(&aliases) {
            let own = name.eq_ignore_ascii_case(&id);
            assert!(
                taken.insert(name.to_lowercase()) || own,
                "{name} names two things"
            );
            let text = shelf.text(&name.to_uppercase()).unwrap();
            assert_eq!(text, shelf.text(&id).unwrap(), "{name}");
        }
    }
}
