//! The answer of `eval` as data (schema `kvplan/eval/1`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema id of [`Evaluation`].
pub const EVAL_SCHEMA: &str = "kvplan/eval/1";

/// What policies do to a model on some problems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// Always `kvplan/eval/1`.
    pub schema: String,
    /// Version of kvplan.
    pub kvplan_version: String,
    /// What was asked.
    pub question: Question,
    /// One entry a policy, the full cache first.
    pub policies: Vec<PolicyResult>,
    /// One entry a problem, in the order of the file.
    pub problems: Vec<ProblemResult>,
    /// Remarks that qualify the figures.
    pub notes: Vec<String>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Name of the model.
    pub model: String,
    /// SHA-256 of its weights.
    pub weights_sha256: String,
    /// Format of its weights.
    pub quantisation: String,
    /// File of the problems.
    pub problems: String,
    /// Whether problems were given as they are, not put through the model's chat template.
    pub raw: bool,
    /// Whether only given texts are run along; otherwise policies write texts of their own, too.
    pub teacher_forced: bool,
    /// Problems without a given text, which ran along the full cache's; null where given texts were not asked for.
    #[serde(default)]
    pub problems_without_given_text: Option<u32>,
    /// Tokens of an answer at most.
    pub max_new_tokens: u32,
    /// Softmax temperature; 0 takes the likeliest token.
    pub temperature: f64,
    /// Share of the probability that is drawn from.
    pub top_p: f64,
    /// Seed of the draws.
    pub seed: u64,
    /// Quantiser of T2.
    pub t2: String,
    /// Positions of new tokens: `kept` or `restart`.
    pub positions: String,
    /// By what policies were brought together; null if they run as asked.
    pub equal: Option<EqualBy>,
}

/// By what policies were brought together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EqualBy {
    /// `retained` or `hbm-peak`.
    pub by: String,
    /// What all were brought to, at these lengths (tokens).
    pub target_tokens: f64,
    /// Tokens of the prompts at which budgets were solved, mean over problems.
    pub prompt_tokens: f64,
    /// Decode steps at which budgets were solved, mean over problems: of given texts, or the most of free ones.
    pub output_tokens: f64,
}

/// A policy over all problems. Figures of its own texts are null where only given texts are run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyResult {
    /// The policy as asked.
    pub policy: String,
    /// The policy with every parameter.
    pub resolved: String,
    /// Problems.
    pub n: u32,
    /// Problems with a right answer and a text of the policy's own.
    pub graded: u32,
    /// Right answers among them.
    pub correct: Option<u32>,
    /// Share of right answers.
    pub accuracy: Option<f64>,
    /// Lower end of Wilson's 95 % interval.
    pub accuracy_low: Option<f64>,
    /// Upper end.
    pub accuracy_high: Option<f64>,
    /// Mean tokens of an answer.
    pub tokens_per_answer: Option<f64>,
    /// Tokens of all graded answers over the number of right ones; null if none is right.
    pub tokens_per_correct_answer: Option<f64>,
    /// Share of answers that the model ended; the others were cut at the most tokens.
    pub ended_share: Option<f64>,
    /// Share of texts that are the full run's, token for token.
    pub texts_identical_share: Option<f64>,
    /// Problems whose extracted answer is not the full run's.
    pub answers_changed: Option<u32>,
    /// Median, over the texts that differ, of the first token that does (from 0); null if none differs.
    pub first_difference_median_token: Option<f64>,
    /// Problems that only this policy has right.
    pub gained: Option<u32>,
    /// Problems that only the full cache has right.
    pub lost: Option<u32>,
    /// Two-sided p-value of those two counts by the exact test of `McNemar`.
    pub mcnemar_p: Option<f64>,
    /// Tokens predicted along the full run's or the given texts.
    pub predicted_tokens: u32,
    /// Mean KL(full || policy) a predicted token (nat).
    pub kl_mean: Option<f64>,
    /// Lower end of its 90 % bootstrap interval over problems; null for one problem.
    pub kl_low: Option<f64>,
    /// Upper end.
    pub kl_high: Option<f64>,
    /// Share of predicted tokens whose likeliest prediction is the full cache's.
    pub argmax_agreement: Option<f64>,
    /// exp of the mean surprise a predicted token.
    pub perplexity: Option<f64>,
    /// Tokens destroyed at the end over tokens generated.
    pub destroyed_share: f64,
    /// Mean over steps of what the full cache's row puts on destroyed tokens.
    pub destroyed_mass_mean: f64,
    /// Mean over steps of tokens not destroyed.
    pub retained_tokens_mean: f64,
    /// The same over that of the full cache.
    pub retained_share: f64,
    /// Mean over problems of the most tokens in HBM.
    pub hbm_peak_tokens_mean: f64,
    /// The same over that of the full cache.
    pub hbm_peak_share: f64,
    /// Mean over steps of tokens in T1.
    pub t1_tokens_mean: f64,
    /// Mean over steps of tokens in T2.
    pub t2_tokens_mean: f64,
    /// Mean over problems of tokens moved from the host to HBM.
    pub promoted_mean: f64,
    /// Mean over problems of tokens moved from HBM to the host.
    pub demoted_mean: f64,
}

/// A problem under every policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemResult {
    /// Its line in the file.
    pub line: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The right answer; null if none is known.
    pub gold: Option<String>,
    /// One entry a policy, in their order.
    pub answers: Vec<AnswerResult>,
}

/// A policy on a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerResult {
    /// The policy as asked.
    pub policy: String,
    /// Its text; null where only given texts are run.
    pub text: Option<String>,
    /// Tokens of its text.
    pub tokens: Option<u32>,
    /// Whether the model ended it.
    pub ended: Option<bool>,
    /// The answer found in it; null if there is none.
    pub answer: Option<String>,
    /// Whether it is right; null if no right answer is known.
    pub correct: Option<bool>,
    /// First token that is not the full run's; null if the texts are equal.
    pub first_difference_token: Option<u32>,
    /// Tokens predicted along the full run's or the given text.
    pub predicted_tokens: u32,
    /// Mean KL(full || policy) a predicted token (nat).
    pub kl_mean: Option<f64>,
    /// Share of predicted tokens whose likeliest prediction is the full cache's.
    pub argmax_agreement: Option<f64>,
    /// Mean -ln of the probability of the tokens that came (nat).
    pub surprise_mean: Option<f64>,
    /// Tokens destroyed at the end of the text run along.
    pub destroyed_tokens: f64,
    /// Mean over its steps of what the full cache's row puts on destroyed tokens.
    pub destroyed_mass_mean: f64,
    /// Most tokens in HBM.
    pub hbm_peak_tokens: f64,
}

impl PolicyResult {
    /// Whether every token was in T0 at every step: the policy may have decided, but nothing came of it.
    pub fn kept_all(&self) -> bool {
        self.retained_share >= 1.0 && self.t1_tokens_mean + self.t2_tokens_mean <= 0.0
    }
}
