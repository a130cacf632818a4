//! Shapes against published counts.
use kvplan::catalog;

#[test]
fn computed_parameters_are_the_published_ones() {
    for id in catalog::model_ids() {
        let m = catalog::model(id).unwrap();
        if let Some(p) = m.published_parameters {
            assert_eq!(m.parameters(), p, "{id}");
        }
    }
}
