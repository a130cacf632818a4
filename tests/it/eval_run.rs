//! Policies on a small model: no result depends on batching, threads or interruption, and each is what a plain loop over
//! one sequence gives.

use kvplan::eval::compare::Predicted;
use kvplan::eval::{Cell, Settings, Task, Words, run};
use kvplan::forward::{
    Cache, Checkpoint, Detail, Item, Keeper, Model, Sampler, Storage, likeliest, window,
};
use kvplan::policy::{self, PolicySpec};

use crate::forward_make::{Tiny, write};

const POLICIES: [&str; 7] = [
    "full",
    "four-tier:hbm=0.5,evict=0,window=3,sinks=1,interval=4",
    "four-tier:hbm=0.3,evict=0.3,semantics=per-interval,window=3,sinks=1,interval=4",
    "four-tier:hbm=0.7,evict=0.3,semantics=per-interval,window=3,sinks=1,interval=4",
    "streaming-llm:sinks=1,window=6",
    "tova:budget=9",
    "r-kv:budget=9,window=2,interval=4",
];

fn policies() -> Vec<PolicySpec> {
    let parse = |p: &&str| policy::parse(p).unwrap();
    POLICIES.iter().map(parse).collect()
}

fn model(tiny: &Tiny) -> Model {
    let dir = tempfile::tempdir().unwrap();
    Model::load(&Checkpoint::open(&write(&dir, &tiny.gguf())).unwrap()).unwrap()
}

fn sampler(temperature: f64) -> Sampler {
    Sampler {
        temperature,
        top_p: 0.95,
        seed: 5,
    }
}

fn tasks(given: Option<&[u32]>) -> Vec<Task> {
    let one = |problem: usize| Task {
        problem,
        line: u32::try_from(problem).unwrap() + 1,
        number: problem as u64,
        prompt: [3, 1, 4, 1, 5, 9, 2, 6][..4 + problem].to_vec(),
        given: given.map(<[u32]>::to_vec),
        most: 24,
        todo: (0..POLICIES.len()).collect(),
    };
    (0..4).map(one).collect()
}

fn is_end(token: u32) -> bool {
    token == 39
}

fn decode(ids: &[u32]) -> String {
    let words: Vec<String> = ids.iter().map(u32::to_string).collect();
    words.join(" ")
}

fn cells(
    model: &Model,
    tasks: Vec<Task>,
    together: usize,
    free: bool,
    temperature: f64,
) -> Vec<Cell> {
    let settings = Settings {
        sampler: sampler(temperature),
        storage: Storage::default(),
        free,
        together,
    };
    let words = Words {
        is_end: &is_end,
        decode: &decode,
    };
    ran(model, &settings, &policies(), tasks, words)
}

/// The cells of a run, by problem and policy.
pub(crate) fn ran(
    model: &Model,
    settings: &Settings,
    policies: &[PolicySpec],
    tasks: Vec<Task>,
    words: Words<'_>,
) -> Vec<Cell> {
    let mut all = Vec::new();
    let mut finished = |c| {
        all.push(c);
        Ok(())
    };
    run(
        model,
        settings,
        policies,
        tasks,
        words,
        &mut finished,
        &mut |_| {},
    )
    .unwrap();
    all.sort_by_key(|c| (c.problem, c.policy));
    all
}

#[test]
fn nothing_depends_on_what_steps_together_or_on_threads() {
    let model = model(&Tiny::new("llama", true, 4));
    let one = cells(&model, tasks(None), 1, true, 1.1);
    assert_eq!(one.len(), 4 * POLICIES.len());
    for together in [3, 9, 40] {
        assert_eq!(
            one,
            cells(&model, tasks(None), together, true, 1.1),
            "{together}"
        );
    }
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let there = pool.install(|| cells(&model, tasks(None), 20, true, 1.1));
        assert_eq!(one, there, "{threads} threads");
    }
    // The run says something: some text differs, some tokens are destroyed, some promoted.
    let own = |c: &Cell| c.own.clone().unwrap();
    assert!(one.iter().any(|c| own(c).differs_at.is_some()));
    assert!(one.iter().any(|c| c.along.destroyed > 0.0
        && c.along.destroyed_mass > 0.0
        && c.along.predicted.kl > 0.0));
    assert!(one.iter().any(|c| c.along.promoted > 0.0));
}

#[test]
fn unfinished_cells_alone_give_the_same() {
    let model = model(&Tiny::new("qwen2", false, 8));
    let whole = cells(&model, tasks(None), 8, true, 0.0);
    // Whatever was finished before a kill: other subsets of cells are left each time.
    for pattern in [2usize, 3, 5] {
        let left: Vec<Task> = tasks(None)
            .into_iter()
            .map(|mut t| {
                t.todo.retain(|p| (t.problem + p) % pattern == 0);
                t
            })
            .collect();
        let rest = cells(&model, left, 8, true, 0.0);
        let want: Vec<Cell> = whole
            .iter()
            .filter(|c| (c.problem + c.policy) % pattern == 0)
            .cloned()
            .collect();
        assert_eq!(rest, want);
    }
}

#[test]
fn without_loss_nothing_differs_and_hbm_never_does() {
    for family in ["llama", "qwen2"] {
        let model = model(&Tiny::new(family, false, 4));
        let all = cells(&model, tasks(None), 16, true, 0.7);
        let host = all
            .iter()
            .filter(|c| c.policy == 1 && c.along.tokens[1] > 0.0 && c.along.promoted > 0.0);
        assert!(host.count() > 1, "something lay in T1 and came back");
        for p in all.chunks(POLICIES.len()) {
            let (full, exact) = (&p[0], &p[1]);
            assert_eq!(full.own, exact.own);
            assert_eq!(exact.along.predicted, full.along.predicted);
            assert_eq!(exact.along.predicted.kl.to_bits(), 0);
            // Proposition 1 with eviction: 30 % and 70 % destroy the same and write the same.
            assert_eq!(
                (&p[2].own, &p[2].along.predicted),
                (&p[3].own, &p[3].along.predicted)
            );
            assert_eq!(
                p[2].along.destroyed.to_bits(),
                p[3].along.destroyed.to_bits()
            );
            assert!(p[2].along.hbm_peak <= p[3].along.hbm_peak);
        }
    }
}

/// One cache and its policy, token by token: logits after each token, and the timeline's masses.
struct Plain {
    logits: Vec<Vec<f32>>,
    destroyed_mass: f64,
    destroyed: f64,
}

/// Runs `next` until it gives no token; `full` are rows of a full cache for the same text, where they are known.
fn plain(
    model: &Model,
    spec: &PolicySpec,
    prompt: &[u32],
    full: Option<&[kvplan::forward::Rows]>,
    next: &mut dyn FnMut(&[f32], u32) -> Option<u32>,
) -> Plain {
    let mut cache = Keeper::cache(spec, model.shape(), 0, Storage::default());
    let mut sums = vec![0f64; prompt.len()];
    let mut queries = Vec::new();
    let mut logits = Vec::new();
    for token in prompt {
        let item = Item {
            detail: Detail::Mean,
            queries: true,
            ..Item::new(0, *token)
        };
        let step = model
            .step(std::slice::from_mut(&mut cache), &[item])
            .unwrap();
        for (sum, w) in sums.iter_mut().zip(step.rows[0].weights()) {
            *sum += f64::from(*w);
        }
        queries.push(step.queries[0].clone());
        logits = step.logits;
    }
    #[allow(clippy::cast_possible_truncation)] // as a keeper takes them
    let sums: Vec<f32> = sums.into_iter().map(|s| s as f32).collect();
    let latest = &queries[prompt.len() - window(spec, prompt.len())..];
    let mut keeper = Keeper::new(spec, model.shape(), &cache, &sums, latest).unwrap();
    let mut all = vec![logits];
    while let Some(token) = next(all.last().unwrap(), u32::try_from(all.len() - 1).unwrap()) {
        let item = Item {
            detail: keeper.detail(),
            queries: true,
            ..Item::new(0, token)
        };
        let step = model
            .step(std::slice::from_mut(&mut cache), &[item])
            .unwrap();
        let row = full.and_then(|f| f.get(all.len() - 1));
        keeper
            .after(&mut cache, &step.rows[0], &step.queries[0], row)
            .unwrap();
        all.push(step.logits);
    }
    let timeline = keeper.finish();
    Plain {
        logits: all,
        destroyed_mass: timeline.mass.iter().map(|m| m[3]).sum(),
        destroyed: timeline.intervals.last().map_or(0.0, |i| i.tokens[3]),
    }
}

/// The full cache's rows along a text, one a layer and KV head.
fn rows(model: &Model, prompt: &[u32], text: &[u32]) -> Vec<kvplan::forward::Rows> {
    let mut cache = Cache::new(model.shape(), 0);
    let whole = [prompt, text].concat();
    let step = model
        .step(
            std::slice::from_mut(&mut cache),
            &Item::of(0, &whole, Detail::Groups),
        )
        .unwrap();
    step.rows[prompt.len()..].to_vec()
}

#[test]
fn a_cell_is_what_a_plain_loop_gives() {
    let model = model(&Tiny::new("llama", false, 4));
    let all = cells(&model, tasks(None), 16, true, 1.1);
    let specs = policies();
    let mut own_texts = 0;
    for (task, p) in tasks(None).iter().zip(all.chunks(POLICIES.len())) {
        let ids = |c: &Cell| -> Vec<u32> {
            let text = &c.own.as_ref().unwrap().text;
            text.split_whitespace()
                .map(|w| w.parse().unwrap())
                .collect()
        };
        let text = ids(&p[0]);
        let full_rows = rows(&model, &task.prompt, &text);
        let along = |spec: &PolicySpec| {
            plain(
                &model,
                spec,
                &task.prompt,
                Some(&full_rows),
                &mut |_, at| text.get(at as usize).copied(),
            )
        };
        let full = along(&specs[0]);
        for (cell, spec) in p.iter().zip(&specs) {
            // Its own text, drawn by itself from the start.
            let mut wrote = Vec::new();
            plain(&model, spec, &task.prompt, None, &mut |logits, at| {
                if at == task.most {
                    return None;
                }
                let drawn = sampler(1.1).draw(logits, task.number, at).unwrap().token;
                (!is_end(drawn)).then(|| {
                    wrote.push(drawn);
                    drawn
                })
            });
            assert_eq!(ids(cell), wrote, "{spec}");
            let own = cell.own.as_ref().unwrap();
            let first = wrote.iter().zip(&text).position(|(a, b)| a != b);
            let shorter = (wrote.len() != text.len()).then(|| wrote.len().min(text.len()));
            assert_eq!(
                own.differs_at.map(|n| n as usize),
                first.or(shorter),
                "{spec}"
            );
            own_texts += u32::from(own.differs_at.is_some());
            // Along the full run's text.
            let run = along(spec);
            let ended = p[0].own.as_ref().unwrap().ended;
            let n = text.len() + usize::from(ended);
            let (mut kl, mut agreed) = (0.0, 0);
            for (a, b) in full.logits.iter().zip(&run.logits).take(n) {
                let (fa, fb) = (Predicted::new(a).unwrap(), Predicted::new(b).unwrap());
                kl += fa.divergence(&fb);
                agreed += u32::from(likeliest(a).unwrap() == likeliest(b).unwrap());
            }
            let sum = &cell.along.predicted;
            assert_eq!((sum.tokens as usize, sum.agreed), (n, agreed), "{spec}");
            assert!((sum.kl - kl).abs() < 1e-9, "{spec}: {} {kl}", sum.kl);
            assert!(
                (cell.along.destroyed_mass - run.destroyed_mass).abs() < 1e-9,
                "{spec}"
            );
            assert!(
                (cell.along.destroyed - run.destroyed).abs() < 1e-9,
                "{spec}"
            );
        }
    }
    assert!(own_texts > 3, "{own_texts} texts went another way");
}

#[test]
fn given_texts_are_run_along_and_nothing_is_drawn() {
    let model = model(&Tiny::new("llama", true, 4));
    let given = [7, 39, 7, 12, 30, 2, 2, 19, 22, 11, 5, 0, 7, 8];
    let all = cells(&model, tasks(Some(&given)), 16, false, 0.0);
    for c in &all {
        assert_eq!(
            (c.own.clone(), c.along.steps, c.along.predicted.tokens),
            (None, 14, 14)
        );
        assert_eq!(
            c.policy == 0 || c.policy == 1,
            c.along.predicted.kl == 0.0,
            "{c:?}"
        );
    }
    // The first prediction is the prompt's own, and no policy has acted yet.
    let first = cells(&model, tasks(Some(&given[..1])), 16, false, 0.0);
    assert!(
        first
            .iter()
            .all(|c| c.along.predicted.kl == 0.0 && c.along.predicted.agreed == 1)
    );
}

#[test]
fn numbers_that_outgrow_the_format_are_named() {
    let mut tiny = Tiny::new("llama", false, 4);
    let output = &mut tiny.weights.get_mut("output.weight").unwrap().1;
    output.fill(f32::MAX);
    let model = model(&tiny);
    let settings = Settings {
        sampler: sampler(0.0),
        storage: Storage::default(),
        free: true,
        together: 4,
    };
    let words = Words {
        is_end: &is_end,
        decode: &decode,
    };
    let e = run(
        &model,
        &settings,
        &policies(),
        tasks(None),
        words,
        &mut |_| Ok(()),
        &mut |_| {},
    )
    .unwrap_err();
    assert_eq!(e.exit_code(), 3);
    assert!(
        e.message.contains("line 1")
            && e.message.contains("`full`")
            && e.message.contains("not finite"),
        "{e}"
    );
}
