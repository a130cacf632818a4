//! Policies on a real model: what destroys nothing changes nothing, and more destroyed is more divergence.

use kvplan::eval::problems::Problem;
use kvplan::eval::{Cell, Settings, Task, Words};
use kvplan::forward::{Checkpoint, Model, Sampler, Storage, Text};
use kvplan::policy::{self, PolicySpec};

use crate::forward_reference::test_model;

const EVICTS: [&str; 4] = ["0", "0.05", "0.2", "0.5"];

fn policies() -> Vec<PolicySpec> {
    let four = EVICTS.iter().map(|e| {
        format!("four-tier:hbm=0.3,evict={e},semantics=per-interval,window=16,interval=16")
    });
    let all = std::iter::once("full".to_string()).chain(four);
    all.map(|p| policy::parse(&p).unwrap()).collect()
}

fn cells(model: &Model, text: &Text, problem: &Problem) -> Vec<Cell> {
    let task = Task {
        problem: 0,
        line: problem.line,
        number: 0,
        prompt: text.chat(&problem.message).unwrap(),
        given: None,
        most: 96,
        todo: (0..=EVICTS.len()).collect(),
    };
    let settings = Settings {
        sampler: Sampler {
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
        },
        storage: Storage::default(),
        free: true,
        together: 8,
    };
    let words = Words {
        is_end: &|t| text.is_end(t),
        decode: &|ids| text.decode(ids),
    };
    crate::eval_run::ran(model, &settings, &policies(), vec![task], words)
}

#[test]
fn divergence_grows_with_what_is_destroyed() {
    let Some(path) = test_model() else {
        skip!("no test model: see KVPLAN_TEST_MODELS");
    };
    let checkpoint = Checkpoint::open(&path).unwrap();
    let (text, model) = (
        Text::open(&checkpoint).unwrap(),
        Model::load(&checkpoint).unwrap(),
    );
    let problem = Problem {
        line: 1,
        message: "Ann has 3 boxes with 12 pencils each. She gives away 7. How many are left? Think step by step.".into(),
        gold: None,
        reference: None,
    };
    let all = cells(&model, &text, &problem);
    let own = |c: &Cell| c.own.clone().unwrap();
    assert!(own(&all[0]).tokens > 40, "{:?}", own(&all[0]));
    assert_eq!(
        (own(&all[1]), all[1].along.predicted),
        (own(&all[0]), all[0].along.predicted)
    );
    assert!(all[1].along.tokens[1] > 100.0 && all[1].along.promoted > 0.0);
    for pair in all[1..].windows(2) {
        let (less, more) = (&pair[0].along, &pair[1].along);
        assert!(less.destroyed < more.destroyed && less.destroyed_mass < more.destroyed_mass);
        assert!(less.predicted.kl < more.predicted.kl, "{less:?} {more:?}");
    }
    // Texts are told apart by their tokens, and a text that is cut was not ended.
    for c in &all {
        let own = own(c);
        assert_eq!(
            own.differs_at.is_none(),
            own.text == all[0].own.as_ref().unwrap().text
        );
        assert!(own.ended || own.tokens == 96);
    }
}
