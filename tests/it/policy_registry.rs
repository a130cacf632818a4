//! Names and parameters: what is accepted, what is refused and how.

use kvplan::policy::{self, PolicySpec};
use proptest::prelude::*;

fn refused(text: &str) -> String {
    let error = policy::parse(text).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{text}");
    format!("{error}; {}", error.help.as_deref().unwrap_or_default())
}

#[test]
fn defaults_are_spelt_out_and_parse_back() {
    let four = policy::parse("four-tier").unwrap();
    assert_eq!(
        four.to_string(),
        "four-tier:hbm=0.5,evict=0,window=128,sinks=4,interval=64,score=cumulative,t2=0,protect=prompt,\
         preset=algorithm,relative-to=unprotected"
    );
    assert_eq!(
        policy::parse("streaming-llm").unwrap().to_string(),
        "streaming-llm:sinks=4,window=2000"
    );
    assert_eq!(policy::parse("full").unwrap().to_string(), "full");
    for card in policy::cards() {
        let spec = policy::parse(card.name).unwrap();
        assert_eq!(spec.card(), card);
        assert_eq!(policy::parse(&spec.to_string()).unwrap(), spec);
        assert_eq!(card.oracle, card.name == "oracle");
    }
    assert_eq!(policy::names().len(), policy::cards().len());
}

#[test]
fn budgets_keep_their_kind() {
    for hbm in ["fit", "8640tok", "34359738368B", "0.25"] {
        let spec = policy::parse(&format!("four-tier:hbm={hbm}")).unwrap();
        assert!(spec.to_string().contains(&format!("hbm={hbm},")), "{spec}");
        assert_eq!(
            spec.build().is_err(),
            matches!(hbm, "fit" | "34359738368B"),
            "{hbm}"
        );
        assert!(spec.with_hbm_tokens(7).build().is_ok());
    }
    assert_eq!(
        policy::parse("four-tier:hbm=32GiB").unwrap(),
        policy::parse("four-tier:hbm=34359738368B").unwrap()
    );
    assert_eq!(
        policy::parse("four-tier:hbm=25%").unwrap(),
        policy::parse("four-tier:hbm=0.25").unwrap()
    );
    let error = policy::parse("four-tier:hbm=fit")
        .unwrap()
        .build()
        .err()
        .unwrap();
    assert_eq!(
        error.exit_code(),
        70,
        "an unresolved budget is a bug of the caller"
    );
}

#[test]
fn refusals_name_the_thing_and_the_way_out() {
    for (text, parts) in [
        (
            "four-teir",
            &["four-teir", "did you mean `four-tier`", "streaming-llm"][..],
        ),
        ("", &["unknown policy", "four-tier"]),
        (
            "four-tier:windo=5",
            &["windo", "did you mean `window`", "interval"],
        ),
        ("four-tier:hbm", &["hbm", "no value"]),
        ("tova:", &["`tova:`", "no parameters", "write `tova`"]),
        ("four-tier:hbm=0.5,hbm=0.3", &["hbm", "twice"]),
        ("four-tier:hbm=1.5", &["hbm", "1.5", "between 0 and 1"]),
        ("four-tier:hbm=-1", &["hbm", "-1"]),
        ("four-tier:hbm=NaN", &["hbm", "NaN"]),
        ("four-tier:hbm=8640", &["8640", "8640tok"]),
        (
            "four-tier:evict=0.03",
            &["evict=0.03", "semantics", "per-interval", "cumulative"],
        ),
        (
            "four-tier:evict=1.1,semantics=cumulative",
            &["evict", "1.1"],
        ),
        (
            "four-tier:semantics=cumulativ",
            &["cumulativ", "did you mean `cumulative`"],
        ),
        ("four-tier:t2=2", &["t2"]),
        ("four-tier:window=0", &["window", "at least 1"]),
        ("four-tier:interval=0", &["interval", "at least 1"]),
        (
            "four-tier:interval=99999999999",
            &["interval", "limit 2^31"],
        ),
        ("four-tier:sinks=1e99", &["sinks"]),
        ("four-tier:score=ema:1", &["ema:1", "between 0 and 1"]),
        ("four-tier:score=mean", &["mean", "cumulative"]),
        (
            "four-tier:preset=prototype,t2=0.1",
            &["prototype", "t2=0.1"],
        ),
        ("four-tier:relative-to=all", &["relative-to", "unprotected"]),
        ("streaming-llm:window=0", &["window", "at least 1"]),
        ("oracle:score=last", &["score", "oracle"]),
        ("full:hbm=1", &["full", "hbm"]),
        ("h2o-men", &["h2o-men", "did you mean `h2o-mean`"]),
        ("h2o:hevy=5", &["hevy", "did you mean `heavy`", "recent"]),
        ("h2o:recent=0", &["recent", "at least 1"]),
        ("h2o-mean:heavy=-1", &["heavy", "-1"]),
        ("tova:budget=0", &["budget", "at least 1"]),
        ("tova:budget=NaN", &["budget", "NaN"]),
        ("tova-mean:budget=1e30", &["budget", "1e30"]),
        ("lru:alpha=0", &["alpha", "over 0"]),
        ("lru:alpha=NaN", &["alpha", "NaN"]),
        ("lru:alpha=inf", &["alpha", "inf"]),
        ("stream-evict:budget=0", &["budget", "over 0"]),
        ("stream-evict:budget=1.01", &["budget", "1.01"]),
        ("stream-evict:interval=0", &["interval", "at least 1"]),
        ("raas:page=0", &["page", "at least 1"]),
        ("raas:alpha=-1", &["alpha", "-1"]),
        ("random:seed=-1", &["seed", "-1", "whole number"]),
        ("random:budget=100", &["budget=100", "132"]),
        ("snap-kv:budget=32", &["budget=32", "window=32"]),
        ("snap-kv:kernel=4", &["kernel=4", "odd"]),
        ("r-kv:budget=8", &["budget=8", "window=8"]),
        ("r-kv:lambda=2", &["lambda", "2"]),
        ("r-kv-importance:lambda=1", &["lambda", "unknown parameter"]),
    ] {
        let message = refused(text);
        for part in parts {
            assert!(message.contains(part), "{text}: `{message}` lacks `{part}`");
        }
    }
}

/// `list policies` is name, summary and kind beside each other: 15 + 2 + 65 + 2 + 16 columns.
#[test]
fn cards_fit_a_terminal_and_say_what_they_are() {
    for card in policy::cards() {
        assert!(
            card.name.len() <= 15 && card.summary.len() <= 65,
            "{}",
            card.name
        );
        assert!(!card.source.is_empty());
        for key in card.params.iter().map(|p| p.key) {
            let error = refused(&format!("{}:{key}=\u{1f4a5}", card.name));
            assert!(error.contains(key), "{}: {error}", card.name);
        }
        // An approximation is asked for by its own name, and needs nothing but mean rows.
        if let Some(name) = card.stand_in {
            let other = policy::parse(name).unwrap().card();
            assert!(
                other.needs.mean && other.needs.prompt_queries.is_none() && !other.needs.layers
            );
        }
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_is_refused(text in "(full|four-tier|oracle|streaming-llm|stream-evict|h2o|h2o-mean|tova|r-kv|r-kv-importance|snap-kv|raas|lru|random)?:?[a-z0-9=.,:%-]{0,30}") {
        if let Ok(spec) = policy::parse(&text) {
            prop_assert_eq!(spec.to_string().parse::<PolicySpec>().unwrap(), spec);
        }
    }
}
