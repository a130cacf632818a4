//! What each figure of an outcome or a row means: its formula, what enters it, what bounds it.
//!
//! Text beside the code that computes: a figure without an entry cannot be explained, and a test demands an entry for
//! every figure of a result. `values` are keys of the same result; `rests` are parts of names of its assumptions.

mod load;

pub use load::{SERVING, SOLVED};

/// The explanation of one figure.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// Key, without the path of the outcome or row it belongs to.
    pub key: &'static str,
    /// How it comes about.
    pub formula: &'static str,
    /// Keys that enter.
    pub values: &'static [&'static str],
    /// Parts of names of assumptions that enter.
    pub rests: &'static [&'static str],
    /// What it cannot exceed, or what it leaves out.
    pub bound: &'static str,
}

const fn f(
    key: &'static str,
    formula: &'static str,
    values: &'static [&'static str],
    rests: &'static [&'static str],
    bound: &'static str,
) -> Formula {
    Formula {
        key,
        formula,
        values,
        rests,
        bound,
    }
}

const LENGTHS: &[&str] = &["batch", "prompt_tokens", "output_tokens", "kv"];
const STEP: &[&str] = &[
    "kernel",
    "hbm",
    "gap",
    "layer_other",
    "link",
    "homes",
    "ddr",
    "host",
];

/// Figures of an outcome.
#[rustfmt::skip] // one figure an entry
pub const OUTCOME: &[Formula] = &[
    f("fits", "hbm_peak <= hbm_capacity, and ddr_peak <= ddr_capacity", &["memory.hbm_peak_bytes", "memory.hbm_capacity_bytes", "memory.ddr_peak_bytes", "memory.ddr_capacity_bytes"], &["memory", "reserve", "pinned", "homes"], "peaks, not means: one instant over the capacity is enough"),
    f("shortfall_bytes", "max(0, hbm_peak - hbm_capacity), over all GPUs", &["memory.hbm_peak_bytes", "memory.hbm_capacity_bytes"], &["memory", "reserve", "activation"], "0 if it fits"),
    f("memory.weights_bytes", "parameters x bytes of the weight format; fp8, int8 and int4 leave embeddings and head in bf16, and scales count; less what lies in host memory, plus the buffers it streams through", &["model", "weights", "gpus"], &["weight"], "in HBM, over all GPUs"),
    f("memory.kv_full_bytes", "batch x (prompt + output) x KV bytes per token; KV bytes per token = sum over layers of 2 x KV heads x head width x bytes of the KV format (latent and sliding-window layers by their own rule)", LENGTHS, &[], "counts KV heads, not query heads"),
    f("memory.kv_t0_bytes", "KV of tokens in T0 of all requests at the instant of the HBM peak, with one spare page a request under compaction and in whole pages without it", &["batch", "kv", "policy", "memory.kv_full_bytes"], &["page"], "at most kv_full and its spare pages"),
    f("memory.staging_bytes", "depth layers of the largest T1 of the batch (stream); the buffer as well (staged); all layers of the fetched tokens (selective); none under host-attention and direct", &["t1_mode", "overlap", "tiers.t1.tokens_end"], &[], "HBM that tiering itself costs; taken off the saving"),
    f("memory.activation_bytes", "on every GPU the larger of a prefill chunk x activation bytes per token of the widest layer, and of the logits of the largest batch that the engine warms up with (rows x vocabulary x bytes)", &["runtime", "model"], &["activation", "batched", "warm_up"], "dated: engines change it between releases"),
    f("memory.reserve_bytes", "context, libraries and communication buffers of the runtime, per GPU", &["runtime", "gpus"], &["reserve"], "dated: engines change it between releases"),
    f("memory.hbm_peak_bytes", "weights + kv_t0 + staging + activations + reserve, at the instant at which that sum is largest", &["memory.weights_bytes", "memory.kv_t0_bytes", "memory.staging_bytes", "memory.activation_bytes", "memory.reserve_bytes"], &["reserve", "activation"], "the parts sum to it exactly"),
    f("memory.hbm_capacity_bytes", "usable memory of all GPUs less the vram reserves, U, and the memory fraction, f, by the engine's rule: f x U (of-total); fixed + f x (U - fixed) with fixed = weights + activations + reserve (of-free); f x U + activations + reserve, at most U (static)", &["hardware", "gpus"], &["memory"], "usable is what the driver reports, less than the nominal size; `kvplan show runtime NAME` names the rule"),
    f("memory.hbm_saved_moved_bytes", "peak of the full cache - this peak, staging included, less the part freed by destroying", &["memory.kv_full_bytes", "memory.kv_t0_bytes", "memory.staging_bytes"], &["page"], "negative: staging costs more than moving frees"),
    f("memory.hbm_saved_destroyed_bytes", "KV of the tokens in T3 at the HBM peak", &["tiers.t3.tokens_end", "quality.destroyed_share"], &["page"], "0 unless the policy destroys"),
    f("memory.hbm_saved_moved_whole_pages_bytes", "as hbm_saved_moved, but a page is freed only when no T0 token is left in it", &["memory.hbm_saved_moved_bytes"], &["page"], "what an engine without compaction would save"),
    f("memory.ddr_peak_bytes", "largest host memory: T1 and T2 of all requests, and T0's copies under write-through", &["tiers.t1.tokens_end", "tiers.t2.tokens_end", "batch"], &[], "never over ddr_capacity if it fits"),
    f("memory.ddr_capacity_bytes", "host memory that may be pinned for the GPUs", &["hardware"], &["pinned", "homes", "host.memory"], "less than what is installed"),
    f("throughput.output_tokens_per_s", "batch x output tokens / decode time of the whole run", &["batch", "output_tokens", "throughput.tpot_mean_s", "throughput.full_cache_output_tokens_per_s"], STEP, "decode only; prefill is its own figure. At most that of an unlimited HBM in exact modes"),
    f("throughput.at_end_tokens_per_s", "batch / time of the last step, when contexts are longest", &["batch", "throughput.tpot_p99_s"], STEP, "the slow end of a chain, below the mean"),
    f("throughput.full_cache_output_tokens_per_s", "the same run with everything in an HBM of unlimited size", &["batch", "output_tokens"], &["kernel", "hbm", "gap", "layer_other"], "no exact mode is faster at this batch"),
    f("throughput.tpot_mean_s", "decode time / steps", &["engine.steps", "step.linear_s", "step.attention_s", "step.other_s", "step.collective_s", "step.gap_s", "step.exposed_transfer_s", "step.exposed_host_s", "step.retier_s", "step.recompute_s"], STEP, "the mean; see tpot_p99_s for the slow steps"),
    f("throughput.tpot_p99_s", "99th percentile of the step times of the run", &["throughput.tpot_mean_s", "engine.steps"], STEP, "over steps of a static batch, not over requests"),
    f("throughput.prefill_s", "matrix products at the GEMM share of the peak rate + causal attention, all prompts", &["batch", "prompt_tokens"], &["gemm", "prefill", "dense"], "not part of tokens/s"),
    f("throughput.makespan_s", "prefill of all prompts + all decode steps, recomputation included", &["throughput.prefill_s", "throughput.tpot_mean_s", "engine.steps"], STEP, "first prefill to last token"),
    f("holds_tokens_per_request", "(hbm_capacity - weights - activations - reserve) / (batch x KV bytes per token), in whole tokens", &["memory.hbm_capacity_bytes", "memory.weights_bytes", "memory.activation_bytes", "memory.reserve_bytes", "batch"], &["memory", "page", "reserve"], "all requests at the same length, everything in HBM"),
    f("free_t1_bytes", "link bandwidth x step time without transfers, mean over the run, all links", &["throughput.full_cache_output_tokens_per_s", "batch", "gpus"], &["link", "homes", "ddr", "kernel", "hbm"], "T1 up to this size streams without the GPU waiting for it; it is still written to HBM and read once more"),
    f("breakeven_link_bytes_per_s", "largest T1 of the run / step time without transfers", &["tiers.t1.tokens_end", "throughput.full_cache_output_tokens_per_s", "batch"], &["link", "homes", "ddr", "kernel"], "above it streaming is free throughout; null without T1"),
    f("traffic.h2d_bytes", "sum over steps of T1 streamed, read in place or newly fetched, tokens promoted, and vectors of host attention", &["tiers.t1.tokens_mean", "engine.steps", "moves.promoted_total", "batch"], &[], "every byte that enters a tier crossed a link or was appended"),
    f("traffic.d2h_bytes", "each new token once (write-through), or each demoted token (at-demotion), and vectors of host attention", &["output_tokens", "moves.demoted_total", "batch"], &[], "KV never changes, so a copy is never rewritten"),
    f("traffic.h2d_busy_share", "time the host-to-GPU link carries data / time from the first decode step to the last, stalls included", &["traffic.h2d_bytes", "throughput.tpot_mean_s", "engine.steps"], &["link", "homes"], "at most 100 %"),
    f("traffic.exposed_transfer_share", "time the GPU waits for the link or the host / time from the first decode step to the last, stalls included", &["step.exposed_transfer_s", "step.exposed_host_s", "throughput.tpot_mean_s"], &["link", "homes", "ddr", "host"], "0 where transfers hide behind compute"),
    f("quality.destroyed_share", "destroyed tokens / generated tokens, at the end", &["moves.destroyed_total", "output_tokens", "policy"], &[], "not the share per decision, which compounds"),
    f("quality.destroyed_mass_mean", "mean over steps of the attention that the full cache puts on destroyed tokens", &["quality.destroyed_share", "trace.name", "trace.rows"], &[], "first order, teacher-forced: compares settings of one policy family only"),
    f("quality.destroyed_mass_p99", "99th percentile over steps of the attention that the full cache puts on destroyed tokens", &["quality.destroyed_mass_mean", "trace.name"], &[], "as the mean"),
    f("quality.destroyed_mass_max", "largest of the steps", &["quality.destroyed_mass_p99", "trace.name"], &[], "as the mean"),
    f("quality.residual_mass_mean", "mean over steps of the attention that the full cache puts on host tokens which the step does not fetch", &["t1_mode", "fetched.tokens_mean", "trace.name", "trace.rows"], &[], "selective only; first order, teacher-forced: compares settings of one policy family only"),
    f("quality.residual_mass_p99", "99th percentile over steps of the attention that the full cache puts on host tokens which the step does not fetch", &["quality.residual_mass_mean", "trace.name"], &[], "as the mean"),
    f("quality.residual_mass_max", "largest of the steps", &["quality.residual_mass_p99", "trace.name"], &[], "as the mean"),
    f("quality.lost_mass_mean", "mean over steps of destroyed + residual mass", &["quality.destroyed_mass_mean", "quality.residual_mass_mean"], &[], "residual mass is lost to one step, destroyed mass for good"),
    f("quality.lost_mass_p99", "99th percentile over steps of destroyed + residual mass", &["quality.lost_mass_mean", "trace.name"], &[], "as the mean"),
    f("quality.lost_mass_max", "largest of the steps", &["quality.lost_mass_p99", "trace.name"], &[], "as the mean"),
    f("fetched.tokens_mean", "mean over steps of the host tokens of a request that take part: the best k by prediction, or the fewest that hold the share p of it", &["t1_mode", "tiers.t1.tokens_mean", "tiers.t2.tokens_mean"], &[], "at most the tokens in T1 and T2"),
    f("fetched.fresh_mean", "those of them that were not fetched in the step before", &["fetched.tokens_mean", "trace.name"], &[], "without a trace all of them: the most there can be"),
    f("fetched.fresh_runs_mean", "contiguous runs of positions among those", &["fetched.fresh_mean"], &[], "each is two pieces of a copy in every layer (layout layer)"),
    f("fetched.tokens_max", "most host tokens of a request that take part in any step", &["fetched.tokens_mean"], &[], "at most k under top-k"),
    f("quality.output_error_bound", "2 x lost_mass_max, in units of the largest value norm", &["quality.lost_mass_max", "quality.destroyed_mass_max", "quality.residual_mass_max"], &[], "bounds one attention output, not the answer"),
    f("tiers.t0.tokens_mean", "mean over steps of the tokens of a request in GPU memory", &["policy", "output_tokens"], &[], "the four tiers sum to the tokens of the request"),
    f("tiers.t0.tokens_end", "tokens of a request in GPU memory at the last step", &["policy", "output_tokens"], &[], "the four tiers sum to prompt + output"),
    f("tiers.t0.mass_mean", "mean over steps of the attention on T0", &["trace.name", "trace.rows", "trace.synthetic_share"], &[], "from the trace's model, not from the one that is planned"),
    f("tiers.t1.tokens_mean", "mean over steps of the tokens of a request in host memory, exact", &["policy", "output_tokens"], &[], "the four tiers sum to the tokens of the request"),
    f("tiers.t1.tokens_end", "tokens of a request in host memory, exact, at the last step", &["policy", "output_tokens"], &[], "the four tiers sum to prompt + output"),
    f("tiers.t1.mass_mean", "mean over steps of the attention on T1", &["trace.name", "trace.rows", "trace.synthetic_share"], &[], "from the trace's model, not from the one that is planned"),
    f("tiers.t2.tokens_mean", "mean over steps of the tokens of a request in host memory, 8 bit", &["policy", "output_tokens"], &[], "the four tiers sum to the tokens of the request"),
    f("tiers.t2.tokens_end", "tokens of a request in host memory, 8 bit, at the last step", &["policy", "output_tokens"], &[], "the four tiers sum to prompt + output"),
    f("tiers.t2.mass_mean", "mean over steps of the attention on T2", &["trace.name", "trace.rows", "trace.synthetic_share"], &[], "from the trace's model, not from the one that is planned"),
    f("tiers.t3.tokens_mean", "mean over steps of the destroyed tokens of a request", &["policy", "output_tokens"], &[], "never falls: a destroyed token never returns"),
    f("tiers.t3.tokens_end", "destroyed tokens of a request at the last step", &["policy", "output_tokens"], &[], "the four tiers sum to prompt + output"),
    f("tiers.t3.mass_mean", "mean over steps of the attention that the full cache puts on T3", &["trace.name", "trace.rows", "trace.synthetic_share"], &[], "from the trace's model, not from the one that is planned"),
    f("moves.retiers", "floor(steps / interval), empty ones included", &["output_tokens", "policy"], &[], "decided at the end of a step, held from the next"),
    f("moves.promoted_per_retier", "promoted_total / retiers", &["moves.promoted_total", "moves.retiers"], &[], "T1 to T0, per request"),
    f("moves.demoted_per_retier", "demoted_total / retiers", &["moves.demoted_total", "moves.retiers"], &[], "T0 to T1, per request"),
    f("moves.promoted_total", "moves from T1 to T0 of one request", &["moves.retiers", "trace.name"], &[], "depends on the trace"),
    f("moves.demoted_total", "moves from T0 to T1 of one request", &["moves.retiers", "trace.name"], &[], "depends on the trace"),
    f("moves.destroyed_total", "moves to T3 of one request", &["quality.destroyed_share", "output_tokens"], &[], "each token at most once"),
    f("trace.rows", "recorded decode steps of the trace", &["trace.name", "trace.recorded_model"], &[], ""),
    f("trace.synthetic_share", "steps past the recorded rows / steps of the run", &["trace.rows", "output_tokens"], &[], "there, mass and moves are extrapolated"),
    f("step.linear_s", "weight bytes / (share x HBM bandwidth) + a floor a kernel, all layers and the head; at large batches the arithmetic", &["weights", "memory.weights_bytes", "batch"], &["linear", "hbm"], "mean over steps"),
    f("step.attention_s", "KV read / (share x HBM bandwidth) + a floor a layer; streamed T1 is written and read once more; the weights of attention cost what --score-cost says", &["kv", "tiers.t0.tokens_mean", "batch"], &["attention", "hbm"], "mean over steps"),
    f("step.other_s", "norms, rope, activation function and launches, per layer", &["runtime"], &["layer_other"], "mean over steps"),
    f("step.collective_s", "two all-reduces a layer: floor + bytes x 2 (n-1)/n / bandwidth", &["gpus", "batch"], &["interconnect", "allreduce"], "0 on one GPU"),
    f("step.gap_s", "CPU time between two steps that the GPU waits for, with a part a sequence", &["runtime", "batch"], &["gap"], "mean over steps"),
    f("step.exposed_transfer_s", "step time - what it would be with an infinitely fast link: waiting for transfers, or inside attention for what it reads in place", &["traffic.h2d_bytes", "overlap", "t1_mode"], &["link", "homes"], "0 where transfers hide behind compute"),
    f("step.exposed_host_s", "time the GPU waits for attention on the host", &["t1_mode", "tiers.t1.tokens_mean", "batch"], &["ddr", "host", "cores"], "only under host-attention"),
    f("step.retier_s", "moves of a re-tier + compaction (live unprotected T0 read and written once), spread over the steps", &["moves.promoted_per_retier", "moves.demoted_per_retier"], &["link", "homes", "hbm"], "mean over steps"),
    f("step.recompute_s", "prefill of requests that were preempted, spread over the steps", &["preemptions"], &["gemm", "prefill"], "0 without preemption"),
    f("preemptions", "times the engine dropped the KV of its latest request for want of memory, to recompute it later", &["holds_tokens_per_request", "batch", "prompt_tokens", "output_tokens"], &["memory"], "the engine as it is; 0 for tiered runs"),
    f("engine.events", "events the simulator handled", &["engine.steps"], &[], "size of the simulation, not of the machine"),
    f("engine.steps", "decode steps of the run", &["output_tokens"], &[], "size of the simulation"),
    f("intervals.draws", "draws of every cause of uncertainty at once: a Latin hypercube by seed", &["seed"], &[], "20 or 1,000: --intervals"),
    f("intervals.fits_share", "draws in which it fits, or runs at all where requests take turns / draws", &["fits", "intervals.draws"], &["memory", "reserve", "activation"], "memory and host memory of each draw"),
    f("intervals.output_tokens_per_s_p5", "5th percentile over draws of the figure: the run times what the closed form gives for the draw over what it gives for the best estimates", &["throughput.output_tokens_per_s", "intervals.draws"], STEP, "one cause may move several figures; ends from few draws are rough"),
    f("intervals.output_tokens_per_s_p95", "95th percentile over draws of the figure: the run times what the closed form gives for the draw over what it gives for the best estimates", &["throughput.output_tokens_per_s", "intervals.draws"], STEP, "one cause may move several figures; ends from few draws are rough"),
    f("intervals.tpot_mean_s_p5", "5th percentile over draws of the mean time per token, as of the speed", &["throughput.tpot_mean_s", "intervals.draws"], STEP, "one cause may move several figures; ends from few draws are rough"),
    f("intervals.tpot_mean_s_p95", "95th percentile over draws of the mean time per token, as of the speed", &["throughput.tpot_mean_s", "intervals.draws"], STEP, "one cause may move several figures; ends from few draws are rough"),
    f("intervals.hbm_saved_moved_bytes_p5", "5th percentile over draws of the saving, in draws in which it fits", &["memory.hbm_saved_moved_bytes", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("intervals.hbm_saved_moved_bytes_p95", "95th percentile over draws of the saving, in draws in which it fits", &["memory.hbm_saved_moved_bytes", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("intervals.holds_tokens_per_request_p5", "5th percentile over draws of the tokens that a request may reach", &["holds_tokens_per_request", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("intervals.holds_tokens_per_request_p95", "95th percentile over draws of the tokens that a request may reach", &["holds_tokens_per_request", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("intervals.largest_batch", "(hbm_capacity - weights - activations - reserve) / KV bytes of prompt + output, in whole requests", &["memory.hbm_capacity_bytes", "prompt_tokens", "output_tokens"], &["memory", "reserve"], "requests of full length, everything in HBM"),
    f("intervals.largest_batch_p5", "5th percentile over draws of the requests that fit together", &["intervals.largest_batch", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("intervals.largest_batch_p95", "95th percentile over draws of the requests that fit together", &["intervals.largest_batch", "intervals.draws"], &["memory", "reserve", "activation"], "one cause may move several figures; ends from few draws are rough"),
    f("staggered.output_tokens_per_s", "the same alternative with requests at independent phases: output tokens / decode time while every request is replaced once", &["throughput.output_tokens_per_s", "batch"], STEP, "the mean length of a request is half its longest: more fits"),
    f("staggered.tpot_p99_s", "99th percentile over steps, requests at independent phases", &["throughput.tpot_p99_s"], STEP, "over steps, not over requests"),
    f("staggered.preemptions", "preemptions while every request is replaced once", &["preemptions"], &["memory"], ""),
    f("staggered.fits", "whether it fits without preempting", &["memory.hbm_capacity_bytes"], &["memory"], ""),
];

/// Figures that only some outcomes have.
#[rustfmt::skip] // one figure an entry
pub const SOME: &[Formula] = &[
    f("memory.weights_host_bytes", "share of the layers' weights that lies in host memory; as `fit` the least share (in ten-thousandths) with which weights left in HBM + buffers of `depth` layers + KV + activations + reserve stay within hbm_capacity", &["memory.weights_bytes", "memory.ddr_peak_bytes", "memory.hbm_capacity_bytes"], &["memory", "reserve", "activation", "pinned"], "crosses the link in every step, whatever the batch is"),
    f("length_factor", "--length-factor, where the policy destroys tokens", &["output_tokens", "quality.destroyed_share"], &[], "published: 1.72 with half of the tokens kept, 1.81 with 30 % (50 problems of GSM8K, one model)"),
    f("throughput.equal_answers_tokens_per_s", "output tokens per second / length factor", &["throughput.output_tokens_per_s", "length_factor"], STEP, "at equal answers in number; that fewer of them may be right is not counted"),
];

/// Figures of a row of an answer.
#[rustfmt::skip] // one figure an entry
pub const ROW: &[Formula] = &[
    f("hbm_capacity_bytes", "usable memory of all GPUs less the vram reserves, U, and the memory fraction, f, by the engine's rule: f x U (of-total); fixed + f x (U - fixed) with fixed = weights + activations + reserve (of-free); f x U + activations + reserve, at most U (static)", &["hardware", "gpus"], &["memory"], "usable is what the driver reports, less than the nominal size; `kvplan show runtime NAME` names the rule"),
    f("pool_tokens", "(hbm_capacity - weights - activations - reserve) / KV bytes per token, in whole tokens", &["hbm_capacity_bytes"], &["memory", "reserve", "activation"], "at the asked KV format"),
    f("needed_tokens", "batch x (prompt + output)", &[], &[], "all requests at their largest at once"),
    f("holds_tokens_per_request", "pool_tokens / batch, in whole tokens", &["pool_tokens", "needed_tokens"], &["memory"], "all requests at the same length, everything in HBM"),
    f("shortfall_bytes", "max(0, HBM needed with everything in HBM - hbm_capacity)", &["hbm_capacity_bytes", "needed_tokens", "pool_tokens"], &["memory", "reserve"], "0 if it fits"),
    f("free_t1_bytes", "link bandwidth x the step with everything in HBM, all links", &["gpus"], &["link", "homes", "ddr", "kernel", "hbm"], "T1 up to this size streams without the GPU waiting for it; it is still written to HBM and read once more"),
    f("breakeven_free_bytes_per_s", "spill of this question / the step with everything in HBM", &["shortfall_bytes"], &["link", "homes", "ddr", "kernel"], "above it the spill streams for free"),
    f("breakeven_best_bytes_per_s", "link bandwidth at which tokens/s of `stream` equal those of the best alternative at the same formats, found by bisection", &["breakeven_free_bytes_per_s"], &["link", "homes", "ddr", "kernel"], "null if they are equal at every bandwidth or at none"),
    f("verdict.pays", "some T1 mode gives more tokens/s than the best alternative at the same weight and KV format", &["verdict.best", "verdict.best_runnable"], &["link", "homes", "ddr"], "fp8 KV and int4 weights are other formats: not rivals here"),
    f("in_draws.fits_share", "draws in which everything fits in HBM / draws", &["shortfall_bytes", "hbm_capacity_bytes"], &["memory", "reserve"], "0 or 1: no draw disagrees"),
    f("in_draws.pays_share", "draws in which some T1 mode is faster than the best alternative at the same formats / draws", &["verdict.pays"], &["link", "homes", "ddr"], "all ways of a card see the same draw"),
    f("in_draws.best_runnable_share", "draws in which the best that runs today is still the best / draws", &["verdict.best_runnable"], &["memory", "kernel"], "ways that are the same run count as the same"),
];
