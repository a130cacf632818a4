//! README.md and the transcripts of `tests/cmd` say what the binary prints.

#[test]
fn readme_and_transcripts() {
    trycmd::TestCases::new()
        .case("README.md")
        .case("tests/cmd/*.trycmd");
}
