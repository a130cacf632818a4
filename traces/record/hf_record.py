"""Attention of a Hugging Face model on your own GPU, in arrays that `kvplan trace import` takes; and what masks do to it.

    python hf_record.py decode --model MODEL --prompts F.jsonl -o DIR [--max-new N --temperature T --top-p P --seed S]
    python hf_record.py score  --model MODEL --texts F.jsonl -o DIR          (finished texts, many tokens at once)
    python hf_record.py score  --model MODEL --trace X.kvt -o DIR            (the very tokens of a trace)
    python hf_record.py masks  --model MODEL --trace X.kvt kept.npz ...      (of `kvplan simulate --export-decisions`)

`--layers` keeps every layer's rows, `--keys [--queries N]` keys and queries after rotation. README.md beside this file
says what is in the arrays and which versions this was run with.

How it works: with `attn_implementation="eager"` a model's attention calls one function of its own module, which is
replaced here. It computes what the original computes (scores in the model's type, softmax in binary32) and, before the
weights are rounded to the model's type, sums them over heads and layers; no layer's weights outlive the layer. Rows thus
obey the format's rule on sums whatever the model's type. One sequence at a time; models of the Llama and Qwen2 kind.
"""

import argparse
import json
import pathlib
import struct
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPT = ("prompt", "question", "problem")
FINISHED = ("completion", "response", "solution", "answer", "text")


# --- the hook ----------------------------------------------------------------------------------------------------


class Hook:
    """Stands where the model's attention function stood: sums weights, keeps vectors, applies a placement."""

    def __init__(self, model):
        self.shape = model.config
        self.layers = self.shape.num_hidden_layers
        self.per_layer = self.vectors = False
        self.placement = None
        attention = model.model.layers[0].self_attn
        module = sys.modules[type(attention).__module__]
        if not hasattr(module, "eager_attention_forward"):
            raise SystemExit(f"{module.__name__} has no `eager_attention_forward`: take transformers 4.48 or later")
        module.eager_attention_forward = self

    def begin(self):
        """A new chunk: rows and vectors of its positions."""
        self.mean, self.rows, self.keys, self.queries = None, [], [], []

    def __call__(self, module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
        layer, (heads, new) = module.layer_idx, query.shape[1:3]
        group, length = heads // key.shape[1], key.shape[2]
        if self.vectors:
            self.keys.append(half(key[0, :, -new:]).transpose(0, 1))
            self.queries.append(half(query[0]).transpose(0, 1))
        if self.placement is not None:
            key, value = self.placement.degrade(layer, key, value)
        scores = torch.matmul(query, key.repeat_interleave(group, 1).transpose(2, 3)) * scaling
        positions = torch.arange(length, device=query.device)
        if attention_mask is not None:
            scores = scores + attention_mask[:, :, :, :length]
        else:
            later = positions[None, :] > positions[length - new :, None]
            scores = scores.masked_fill(later, float("-inf"))
        if self.placement is not None:
            scores = self.placement.destroy(layer, scores)
        weights = torch.softmax(scores, -1, dtype=torch.float32)
        row = weights[0].sum(0)
        self.mean = row if self.mean is None else self.mean + row
        if self.per_layer:
            self.rows.append(half(row / heads))
        out = torch.matmul(weights.to(value.dtype), value.repeat_interleave(group, 1))
        return out.transpose(1, 2).contiguous(), None

    def taken(self):
        """Mean rows `[new, length]` of the chunk."""
        return self.mean / (self.layers * self.shape.num_attention_heads)


def half(x):
    return x.to(torch.float16).cpu()


# --- recording ---------------------------------------------------------------------------------------------------


class Recording:
    """Rows of one text, gathered chunk by chunk."""

    def __init__(self, hook, prompt, window):
        self.hook, self.prompt, self.first_query = hook, prompt, max(0, len(prompt) - window)
        self.sums = np.zeros(len(prompt))
        self.rows, self.layers, self.keys, self.queries = [], [], [], []
        self.tokens, self.logp, self.seen = [], [], 0

    def chunk(self, run, tokens):
        """Runs the next tokens; the logits of what follows each, `[tokens, vocabulary]`."""
        self.hook.begin()
        logits = run(tokens)
        mean, at, p = self.hook.taken(), self.seen, len(self.prompt)
        self.seen += len(tokens)
        for i in range(len(tokens)):
            row = mean[i, : at + i + 1]
            if at + i < p:
                self.sums[: at + i + 1] += row.double().cpu().numpy()
            else:
                self.rows.append(half(row).numpy())
                self.layers += [layer[i, : at + i + 1].numpy() for layer in self.hook.rows]
        if self.hook.vectors:
            self.keys.append(torch.stack(self.hook.keys, 1).numpy())
            first = max(0, self.first_query - at)
            self.queries.append(torch.stack(self.hook.queries, 1)[first:].numpy())
        return logits

    def save(self, path):
        arrays = {
            "prompt": np.array(self.prompt, np.uint32),
            "column_sums": self.sums.astype(np.float32),
            "rows": np.concatenate(self.rows),
            "tokens": np.array(self.tokens, np.uint32),
            "logp": np.array(self.logp, np.float32),
        }
        if self.layers:
            arrays["layers"] = np.concatenate(self.layers)
        if self.keys:
            arrays["keys"], arrays["queries"] = np.concatenate(self.keys), np.concatenate(self.queries)
        np.savez(path, **arrays)


def record(model, hook, prompt, given, args, ends):
    """Scores the given tokens, or draws up to --max-new."""
    run = runner(model)
    recording = Recording(hook, prompt, len(prompt) if args.queries is None else args.queries)
    for at in range(0, len(prompt), args.chunk):
        last = recording.chunk(run, prompt[at : at + args.chunk])[-1]
    if given is not None:
        for at in range(0, len(given), args.chunk):
            piece = given[at : at + args.chunk]
            logits = recording.chunk(run, piece)
            before = torch.cat([last[None], logits[:-1]])
            recording.tokens += piece
            recording.logp += picked(before, piece)
            last = logits[-1]
        return recording
    draws = torch.Generator().manual_seed(args.seed)
    while len(recording.tokens) < args.max_new:
        token = draw(last, args, draws)
        if token in ends:
            break
        recording.tokens.append(token)
        recording.logp += picked(last[None], [token])
        last = recording.chunk(run, [token])[-1]
    return recording


def runner(model):
    """A text's cache, as a function from its next tokens to logits."""
    state = {}

    @torch.no_grad()
    def run(tokens):
        ids = torch.tensor([tokens], device=model.device)
        out = model(input_ids=ids, past_key_values=state.get("cache"), use_cache=True)
        state["cache"] = out.past_key_values
        return out.logits[0].float()

    return run


def picked(logits, tokens):
    logp = torch.log_softmax(logits, -1)
    return logp[torch.arange(len(tokens)), torch.tensor(tokens, dtype=torch.long, device=logp.device)].tolist()


def draw(logits, args, draws):
    if args.temperature == 0:
        return int(logits.argmax())
    share, order = torch.softmax(logits / args.temperature, -1).cpu().sort(descending=True)
    share[share.cumsum(0) - share >= args.top_p] = 0
    return int(order[torch.multinomial(share, 1, generator=draws)])


# --- what a policy's placement does ------------------------------------------------------------------------------


class Placement:
    """Where a policy has the tokens, from a file of `--export-decisions`: destroyed ones get no weight, those at
    reduced precision (for good, wherever they lie later) are rounded to 8 bits per token and head."""

    def __init__(self, path, model):
        file = np.load(path)
        self.meta = json.loads(bytes(file["meta"]))
        shape, self.lanes = model.config, self.meta["lanes"]
        self.kv = shape.num_key_value_heads
        self.group = shape.num_attention_heads // self.kv
        self.prompt = int(file["prompt"][0])
        self.first, self.lane = file["first_step"].astype(int), file["lane"].astype(int)
        self.offsets, self.positions, self.tiers = file["offsets"].astype(int), file["positions"], file["tiers"]
        self.dead, self.reduced, self.entry = {}, {}, 0

    def until(self, step, most):
        """Applies what holds from `step` on; the step before which it changes next, at most `most`."""
        while self.entry < len(self.first) and self.first[self.entry] <= step:
            here = slice(self.offsets[self.entry], self.offsets[self.entry + 1])
            live, lane = self.positions[here].astype(np.int64), int(self.lane[self.entry])
            dead = np.ones(self.prompt + int(self.first[self.entry]), bool)
            dead[live] = False
            self.dead[lane] = np.flatnonzero(dead)
            now = live[self.tiers[here] == 2]
            self.reduced[lane] = np.union1d(self.reduced.get(lane, now), now)
            self.entry += 1
        return min(most, int(self.first[self.entry])) if self.entry < len(self.first) else most

    def sets(self, sets, layer):
        """Of a layer, each KV head's positions that are not nothing."""
        if self.lanes == "kvhead":
            found = [(range(h, h + 1), sets.get(layer * self.kv + h)) for h in range(self.kv)]
        else:
            found = [(range(self.kv), sets.get(layer if self.lanes == "layer" else 0))]
        return [(heads, at) for heads, at in found if at is not None and len(at)]

    def degrade(self, layer, key, value):
        for heads, at in self.sets(self.reduced, layer):
            key, value = key.clone(), value.clone()
            for h in heads:
                for x in (key, value):
                    x[0, h, at] = eight_bits(x[0, h, at])
        return key, value

    def destroy(self, layer, scores):
        for heads, at in self.sets(self.dead, layer):
            scores[:, heads[0] * self.group : (heads[-1] + 1) * self.group, :, at] = float("-inf")
        return scores


def eight_bits(x):
    scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-30) / 127
    return ((x.float() / scale).round() * scale).to(x.dtype)


def masked(model, hook, path, prompt, tokens, args):
    """The text under a placement and under none, side by side: divergence and agreement step by step."""
    placement = Placement(path, model)
    if placement.prompt != len(prompt):
        raise SystemExit(f"{path} is of a prompt of {placement.prompt} tokens, the text's has {len(prompt)}")
    full, other = runner(model), runner(model)

    def both(piece, how):
        hook.begin()
        hook.placement = None
        a = torch.log_softmax(full(piece), -1)
        hook.placement = how
        b = torch.log_softmax(other(piece), -1)
        hook.placement = None
        return a, b

    for at in range(0, len(prompt), args.chunk):
        a, b = both(prompt[at : at + args.chunk], None)
    kl, agree, loss, step = [], [], [[-picked(x[-1:], tokens[:1])[0]] for x in (a, b)], 0
    while step < len(tokens):
        end = placement.until(step, min(step + args.chunk, len(tokens)))
        a, b = both(tokens[step:end], placement)
        kl += (a.exp() * (a - b)).sum(-1).tolist()
        agree += (a.argmax(-1) == b.argmax(-1)).tolist()
        following = tokens[step + 1 : end + 1]
        for x, sum_ in zip((a, b), loss):
            sum_ += [-l for l in picked(x[: len(following)], following)]
        step = end
    return {
        "policy": placement.meta["policy"],
        "steps": len(tokens),
        "kl_mean": float(np.mean(kl)),
        "kl_max": float(np.max(kl)),
        "argmax_agreement": float(np.mean(agree)),
        "perplexity": float(np.exp(np.mean(loss[1]))),
        "perplexity_full": float(np.exp(np.mean(loss[0]))),
    }


# --- files -------------------------------------------------------------------------------------------------------


def read_trace(path):
    """Prompt and token ids of a .kvt (traces/FORMAT.md), or of a file that this script wrote."""
    if path.suffix == ".npz":
        file = np.load(path)
        return file["prompt"].tolist(), file["tokens"].tolist()
    data = path.read_bytes()
    if data[:8] != b"\x89KVT\r\n\x1a\n":
        raise SystemExit(f"{path} is no .kvt trace")
    at = 24 + struct.unpack_from("<I", data, 12)[0]
    header, tokens = json.loads(data[24:at]), []
    kinds = [s["kind"] for s in header["sections"]]
    if "tokens" not in kinds or "prompt_ids" not in header:
        raise SystemExit(f"{path} does not say its tokens")
    while at + 32 <= len(data):
        tag, section, _, rows, size = struct.unpack_from("<4sIIIQ", data, at)
        if tag == b"CHNK" and kinds[section] == "tokens":
            tokens += [struct.unpack_from("<I", data, at + 32 + 8 * i)[0] for i in range(rows)]
        at += 32 + size
    return header["prompt_ids"], tokens


def texts(args, tokenizer):
    """Name, prompt ids and given ids (none to draw them) of each text."""
    if args.command != "decode" and args.trace:
        for path in args.trace:
            yield path.stem, *read_trace(path)
        return
    finished = args.command == "score"
    lines = (args.texts if finished else args.prompts).read_text().splitlines()
    for number, line in enumerate((l for l in lines if l.strip()), 1):
        value = json.loads(line)
        value = {"prompt": value} if isinstance(value, str) else value
        prompt = next(value[k] for k in PROMPT if k in value)
        if args.raw:
            ids = tokenizer(prompt)["input_ids"]
        else:
            message = [{"role": "user", "content": prompt}]
            text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        given = next((value[k] for k in FINISHED if k in value), None) if finished else None
        if finished and given is None:
            raise SystemExit(f"{args.texts}, line {number}: no text under {', '.join(FINISHED)}")
        yield f"{number:04}", ids, tokenizer(given, add_special_tokens=False)["input_ids"] if finished else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("decode", "score", "masks"):
        command = commands.add_parser(name)
        add = command.add_argument
        add("--model", required=True, help="folder or name of the model")
        add("--gguf", help="a GGUF file in that folder, which transformers dequantises")
        add("--dtype", default="auto", help="float32, bfloat16, ... (default: the model's)")
        add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        add("--chunk", type=int, default=256, help="tokens that run together")
        if name == "masks":
            add("decisions", nargs="+", type=pathlib.Path)
            add("--trace", type=pathlib.Path, required=True, help="the recording that the decisions are of")
            continue
        add("-o", "--out", type=pathlib.Path, required=True)
        add("--layers", action="store_true")
        add("--keys", action="store_true")
        add("--queries", type=int, help="queries of so many of the last prompt tokens (default: all)")
        add("--raw", action="store_true", help="texts as they are, without the chat template")
        if name == "score":
            source = command.add_mutually_exclusive_group(required=True)
            source.add_argument("--texts", type=pathlib.Path)
            source.add_argument("--trace", type=pathlib.Path, nargs="+")
        else:
            add("--prompts", type=pathlib.Path, required=True)
            add("--max-new", type=int, default=512)
            add("--temperature", type=float, default=0.0)
            add("--top-p", type=float, default=1.0)
            add("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = arguments()
    dtype = args.dtype if args.dtype == "auto" else getattr(torch, args.dtype)
    more = {"gguf_file": args.gguf} if args.gguf else {}
    model = AutoModelForCausalLM.from_pretrained(
        args.model, torch_dtype=dtype, attn_implementation="eager", **more
    )
    model = model.to(args.device).eval()
    hook = Hook(model)
    if args.command == "masks":
        prompt, tokens = read_trace(args.trace)
        for path in args.decisions:
            print(json.dumps(masked(model, hook, path, prompt, tokens, args)), flush=True)
        return
    hook.per_layer, hook.vectors = args.layers, args.keys
    by_tokens = args.command == "score" and args.trace
    tokenizer = None if by_tokens else AutoTokenizer.from_pretrained(args.model, **more)
    ends = model.generation_config.eos_token_id if model.generation_config else None
    ends = {e for e in (ends if isinstance(ends, list) else [ends]) if e is not None}
    ends |= {tokenizer.eos_token_id} if tokenizer else set()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, prompt, given in texts(args, tokenizer):
        recording = record(model, hook, prompt, given, args, ends)
        path = args.out / f"{name}.npz"
        recording.save(path)
        print(f"{path}: prompt {len(prompt)}, rows {len(recording.tokens)}", file=sys.stderr)


if __name__ == "__main__":
    main()
