//! `list` and `show`, and a user's own files: what is shown is what is computed, what is wrong is shown where it stands.

use clap::Parser;
use kvplan::catalog;
use kvplan::cli::{list, show};
use kvplan::error::{Error, Result};
use serde_json::Value;

#[derive(Parser)]
enum Verb {
    List(list::ListArgs),
    Show(show::ShowArgs),
}

fn run(words: &[&str]) -> Result<String> {
    let mut out = Vec::new();
    match Verb::try_parse_from(std::iter::once(&"kvplan").chain(words)).unwrap() {
        Verb::List(a) => list::run(&a, &mut out)?,
        Verb::Show(a) => show::run(&a, &mut out)?,
    }
    Ok(String::from_utf8(out).unwrap())
}

fn fails(words: &[&str]) -> Error {
    run(words).unwrap_err()
}

#[test]
fn show_model_explains_kv_factor_by_factor() {
    let text = run(&["show", "model", "Qwen/Qwen2.5-7B"]).unwrap();
    assert!(
        text.contains("28 layers x 2 (K and V) x 4 KV heads x 128 wide x 2 B = 57,344 B"),
        "{text}"
    );
    assert!(text.contains(
        "28 query heads share 4 KV heads: counting query heads would give 7 times as much"
    ));
    let text = run(&[
        "show",
        "llama-3.1-70b",
        "--kv",
        "int8",
        "--weights",
        "q4_k_m",
    ])
    .unwrap();
    assert!(
        text.contains("8 KV heads x (128 wide x 1 B + 2 B scale) = 166,400 B"),
        "{text}"
    );
    assert!(text.contains("q4_k_m") && !text.contains("bf16"));
}

#[test]
fn show_model_json_has_the_promised_keys() {
    let json: Value =
        serde_json::from_str(&run(&["show", "gpt-oss-20b", "--format", "json"]).unwrap()).unwrap();
    assert_eq!(json["kv_bytes_per_token"], 49_152);
    assert_eq!(json["parameters"], 20_914_757_184_u64);
    assert_eq!(json["weights_bytes"]["bf16"], 41_829_514_368_u64);
    assert!(json["weights_bytes"]["mxfp4"].as_u64() < json["weights_bytes"]["fp8"].as_u64());
    let parts = json["parameters_by_part"].as_object().unwrap();
    assert_eq!(
        parts.values().map(|v| v.as_u64().unwrap()).sum::<u64>(),
        20_914_757_184
    );
}

/// At most 100 columns.
fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn every_entry_can_be_shown_and_listed() {
    for id in catalog::model_ids()
        .into_iter()
        .chain(catalog::hardware_ids())
        .chain(catalog::runtime_ids())
    {
        let shown = run(&["show", id]).unwrap();
        assert!(shown.starts_with(id));
        fits(&shown);
        serde_json::from_str::<Value>(&run(&["show", id, "--format", "json"]).unwrap()).unwrap();
        assert!(
            run(&["show", id, "--format", "toml"])
                .unwrap()
                .contains(&format!("id = \"{id}\""))
        );
    }
    for (what, n) in [
        ("models", catalog::model_ids().len()),
        ("hardware", catalog::hardware_ids().len()),
        ("runtimes", catalog::runtime_ids().len()),
    ] {
        // A long cell goes on in lines that begin with a blank.
        let list = run(&["list", what]).unwrap();
        let rows = list.lines().filter(|l| !l.starts_with(' ')).count();
        assert_eq!(rows, n + 1);
        fits(&list);
        assert_eq!(
            run(&["list", what, "--format", "csv"])
                .unwrap()
                .lines()
                .count(),
            n + 1
        );
        let json: Value =
            serde_json::from_str(&run(&["list", what, "--format", "json"]).unwrap()).unwrap();
        assert_eq!(json.as_array().unwrap().len(), n);
    }
}

#[test]
fn policies_and_traces_are_listed_and_shown() {
    let csv = run(&["list", "policies", "--format", "csv"]).unwrap();
    assert!(
        csv.contains("four-tier,") && csv.lines().count() == kvplan::policy::names().len() + 1,
        "{csv}"
    );
    assert!(
        run(&["list", "traces"])
            .unwrap()
            .lines()
            .nth(1)
            .unwrap()
            .contains("SmolLM2")
    );
    let card = run(&["show", "four-tier:window=64"]).unwrap();
    assert!(
        card.lines()
            .any(|l| l.starts_with("window") && l.contains("64")),
        "{card}"
    );
    let json: Value =
        serde_json::from_str(&run(&["show", "policy", "full", "--format", "json"]).unwrap())
            .unwrap();
    assert_eq!(
        (json["name"].as_str(), json["destroys"].as_bool()),
        (Some("full"), Some(false))
    );
}

/// The profiles in the binary pass the checks that a user's own must pass.
#[test]
fn embedded_profiles_pass_their_own_checks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.toml");
    for id in catalog::hardware_ids() {
        std::fs::write(&path, catalog::Shelf::Hardware.text(id).unwrap()).unwrap();
        assert_eq!(
            catalog::hardware(path.to_str().unwrap()).unwrap(),
            catalog::hardware(id).unwrap()
        );
    }
    for id in catalog::runtime_ids() {
        std::fs::write(&path, catalog::Shelf::Runtimes.text(id).unwrap()).unwrap();
        assert_eq!(
            catalog::runtime(path.to_str().unwrap()).unwrap(),
            catalog::runtime(id).unwrap()
        );
    }
}

#[test]
fn every_number_is_shown_with_interval_source_and_ref() {
    let text = run(&["show", "hardware", "h100_sxm"]).unwrap();
    // The source stands under the number.
    let mut lines = text.lines().skip_while(|l| !l.starts_with("link.h2d"));
    let row = format!("{} {}", lines.next().unwrap(), lines.next().unwrap());
    for part in [
        "55.0 GB/s",
        "50.0 GB/s to 56.4 GB/s",
        "measured",
        "nvbandwidth",
    ] {
        assert!(row.contains(part), "{row}");
    }
}

#[test]
fn misspelt_names_get_a_suggestion_and_the_list() {
    for (words, guess) in [
        (vec!["show", "model", "lama-3.1-8b"], "`llama-3.1-8b`"),
        (vec!["show", "h10-sxm"], "`h100-sxm` (hardware)"),
        (vec!["show", "runtime", "vlm"], "`vllm`"),
        (vec!["show", "modle", "vllm"], "`model`"),
        (vec!["show", "four-teir"], "`four-tier` (policy)"),
    ] {
        let e = fails(&words);
        assert_eq!(e.exit_code(), 2);
        let help = e.help.unwrap();
        assert!(
            help.contains("did you mean ") && help.contains(guess),
            "{help}"
        );
    }
    let e = catalog::hardware("zzzz").unwrap_err();
    assert!(e.message.contains("`zzzz`") && e.help.unwrap().contains("kvplan list hardware"));
}

/// A profile of one's own: the H100's text with one line changed.
fn changed(from: &str, to: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let text = catalog::Shelf::Hardware.text("h100-sxm").unwrap();
    assert!(text.contains(from));
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    let path = path.to_str().unwrap().to_string();
    (dir, path)
}

#[test]
fn a_profile_of_ones_own_is_read() {
    let (_dir, path) = changed("value = \"3350 GB/s\"", "value = \"3340 GB/s\"");
    assert!((catalog::hardware(&path).unwrap().gpu.hbm_bandwidth.get() - 3.34e12).abs() < 1.0);
    assert!(run(&["show", &path]).unwrap().starts_with("h100-sxm"));
    assert!(catalog::hardware_warnings(&catalog::hardware(&path).unwrap()).is_empty());
}

/// What is changed, into what, and what the message must say.
#[test]
fn impossible_profiles_are_refused_at_their_line() {
    for (from, to, says, at) in [
        (
            "hbm_bandwidth =",
            "hbm_bandwith =",
            "unknown field `hbm_bandwith`",
            "hbm_bandwith",
        ),
        (
            "value = \"3350 GB/s\", low = \"3333.2 GB/s\"",
            "value = \"0 GB/s\", low = \"0 GB/s\"",
            "`hbm_bandwidth` is 0",
            "hbm_bandwidth",
        ),
        (
            "value = \"3350 GB/s\"",
            "value = \"3350\"",
            "needs a unit",
            "{",
        ),
        (
            "value = \"3350 GB/s\"",
            "value = \"9999 GB/s\"",
            "interval must hold the value",
            "{",
        ),
        ("value = 0.9,", "value = 1.9,", "more than the whole", "{"),
        ("generation = \"hopper\"", "generation = ", "", ""),
        (
            "memory_kind = \"HBM3\"\n",
            "",
            "missing field `memory_kind`",
            "",
        ),
        (
            "pinned_limit = { value = \"512 GiB\", low = \"64 GiB\", high = \"1900 GiB\"",
            "pinned_limit = { value = \"2000 GiB\", low = \"64 GiB\", high = \"9000 GiB\"",
            "`pinned_limit` is more than",
            "pinned_limit",
        ),
    ] {
        let (_dir, path) = changed(from, to);
        let e = catalog::hardware(&path).unwrap_err();
        assert_eq!(e.exit_code(), 3, "{to}");
        assert!(e.message.contains(says), "{to}: {}", e.message);
        let place = e.place.unwrap();
        assert_eq!(place.file, path);
        assert!(
            place.text[place.span.clone()].starts_with(at),
            "{to}: {:?}",
            &place.text[place.span]
        );
    }
    let (_dir, path) = changed("hbm_bandwidth =", "hbm_bandwith =");
    assert!(
        catalog::hardware(&path)
            .unwrap_err()
            .help
            .unwrap()
            .contains("`hbm_bandwidth`")
    );
}

/// The published slip: a host link of 12,500 GB/s, 200 times `PCIe` 5.
#[test]
fn links_above_their_wire_are_warned_of() {
    let (_dir, path) = changed(
        "h2d = { value = \"55 GB/s\", low = \"50 GB/s\", high = \"56.4 GB/s\"",
        "h2d = { value = \"12500 GB/s\", low = \"50 GB/s\", high = \"12500 GB/s\"",
    );
    let warnings = catalog::hardware_warnings(&catalog::hardware(&path).unwrap());
    assert!(
        warnings[0].contains("12500 GB/s, above the 63 GB/s of PCIe 5 x16"),
        "{warnings:?}"
    );
    for id in catalog::hardware_ids() {
        assert_eq!(
            catalog::hardware_warnings(&catalog::hardware(id).unwrap()),
            Vec::<String>::new(),
            "{id}"
        );
    }
}

#[test]
fn model_files_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    let shown = path.to_str().unwrap();
    let base = catalog::Shelf::Models.text("gemma-3-27b").unwrap();
    for (from, to, says, at) in [
        ("layers = 62", "layers = 0", "`layers` is 0", "layers"),
        (
            "\"global\"]",
            "\"globl\"]",
            "layer kind `globl` has no `[kind.globl]`",
            "layers",
        ),
        (
            "kv_heads = 16",
            "kv_heads = 5",
            "`kv_heads` is 5, which does not divide 32",
            "kv_heads",
        ),
        ("hidden = 5376", "hidden = 0", "`hidden` is 0", "hidden"),
        ("hidden = 5376", "hidden = -1", "", "-1"),
        ("window = 1024", "window = 0", "`window` is 0", "window"),
        ("tied = true", "tide = true", "unknown field `tide`", "tide"),
    ] {
        assert!(base.contains(from));
        std::fs::write(&path, base.replacen(from, to, 1)).unwrap();
        let e = catalog::model(shown).unwrap_err();
        assert!(
            e.exit_code() == 3 && e.message.contains(says),
            "{to}: {}",
            e.message
        );
        let place = e.place.unwrap();
        assert!(
            place.text[place.span.clone()].starts_with(at),
            "{to}: {:?}",
            &place.text[place.span]
        );
    }
    std::fs::write(&path, base).unwrap();
    assert_eq!(catalog::model(shown).unwrap().id, "gemma-3-27b");
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(catalog::model(shown).unwrap_err().exit_code(), 3);
    assert_eq!(
        catalog::model(dir.path().join("none.json").to_str().unwrap())
            .unwrap_err()
            .exit_code(),
        2
    );
    std::fs::create_dir(dir.path().join("d.json")).unwrap();
    assert!(
        catalog::model(dir.path().join("d.json").to_str().unwrap())
            .unwrap_err()
            .message
            .contains("is a folder")
    );
    std::fs::write(dir.path().join("huge.json"), vec![b' '; (4 << 20) + 1]).unwrap();
    let e = catalog::model(dir.path().join("huge.json").to_str().unwrap()).unwrap_err();
    assert!(e.message.contains("larger than 4 MiB"), "{}", e.message);
}
