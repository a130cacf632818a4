//! Quantities as text.

use kvplan::units::text;

#[test]
fn a_quantity_that_overflows_is_refused() {
    // A number that is finite times a unit that is not: 1e308 x 10^12.
    for huge in ["1e308TB/s", "1e300 TB/s"] {
        let e = text::bytes_per_second(huge).unwrap_err();
        assert!(e.contains(huge) && e.contains("too large"), "{e}");
    }
    assert!(
        text::flops("1e308 TFLOP/s")
            .unwrap_err()
            .contains("too large")
    );
    // The word for a link without limit stays.
    assert!(text::bytes_per_second("inf").unwrap().is_infinite());
}
