"""The golden of tests/it/forward_reference.rs: SmolLM2 decoded greedily by numpy, written from the definitions.

Usage: python3 forward_reference.py MODEL.gguf OUT_PREFIX   (numpy 2; a minute or two)

Nothing is shared with the program: the file is read, dequantised and run here, activations in binary64. Writes
OUT_PREFIX.json (prompt, tokens, natural log-probability of each token) and OUT_PREFIX.f32 (little-endian binary32):
the mean row of every step, then of the last step a row a layer, then its rows a head of layer 7.
"""

import json
import struct
import sys

import numpy as np

PROMPT = [1, 4093, 198, 6404, 346, 260, 2240, 281, 253, 1165, 30, 3726, 701, 3023, 338, 3410, 47, 2, 198, 1, 520, 9531, 198]
STEPS = 110
HEAD_LAYER = 7


class Reader:
    def __init__(self, path):
        self.data, self.at = np.memmap(path, np.uint8), 0
        assert bytes(self.take(4)) == b"GGUF" and self.number("<I") == 3
        tensors, entries = self.number("<Q"), self.number("<Q")
        self.meta = {}
        for _ in range(entries):
            key, kind = self.text(), self.number("<I")
            self.meta[key] = self.value(kind)
        infos = []
        for _ in range(tensors):
            name = self.text()
            dims = [self.number("<Q") for _ in range(self.number("<I"))]
            infos.append((name, dims, self.number("<I"), self.number("<Q")))
        start = -(-self.at // 32) * 32
        self.weights = {n: self.tensor(d, k, start + o) for n, d, k, o in infos}

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return bytes(self.take(self.number("<Q"))).decode()

    def value(self, kind):
        forms = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, n = self.number("<I"), self.number("<Q")
            return [self.value(inner) for _ in range(n)]
        return self.number(forms[kind])

    def tensor(self, dims, kind, at):
        n = int(np.prod(dims))
        numbers, size = {0: (1, 4), 3: (32, 20), 8: (32, 34)}[kind]
        raw = np.array(self.data[at : at + n // numbers * size])
        if kind == 0:
            out = raw.view("<f4")
        else:
            blocks = raw.reshape(-1, size)
            scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
            if kind == 3:
                low = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
                nibbles = blocks[:, 4:]
                out = np.hstack([nibbles & 15, nibbles >> 4]).astype(np.float32) * scale + low
            else:
                out = blocks[:, 2:].view(np.int8).astype(np.float32) * scale
        return out.reshape(dims[::-1]).astype(np.float32)


def main(path, prefix):
    r = Reader(path)
    w, meta = r.weights, lambda k: r.meta["llama." + k]
    layers, heads, kv = meta("block_count"), meta("attention.head_count"), meta("attention.head_count_kv")
    hidden, eps = meta("embedding_length"), meta("attention.layer_norm_rms_epsilon")
    dim, base = hidden // heads, meta("rope.freq_base")
    keys = [[] for _ in range(layers)]
    values = [[] for _ in range(layers)]

    def norm(x, weights):
        return x / np.sqrt(np.mean(x * x) + eps) * weights

    def rotate(x, position):
        # GGUF's llama: a complex number is two neighbours.
        angle = position * base ** (-2 * np.arange(dim // 2) / dim)
        z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    def forward(token, position):
        x = w["token_embd.weight"][token].astype(np.float64)
        attention = np.zeros((layers, heads, position + 1))
        for l in range(layers):
            t = lambda name: w[f"blk.{l}.{name}.weight"]
            h = norm(x, t("attn_norm"))
            q = rotate((t("attn_q") @ h).reshape(heads, dim), position)
            keys[l].append(rotate((t("attn_k") @ h).reshape(kv, dim), position))
            values[l].append((t("attn_v") @ h).reshape(kv, dim))
            k = np.repeat(np.array(keys[l]), heads // kv, 1)
            v = np.repeat(np.array(values[l]), heads // kv, 1)
            score = np.einsum("hd,phd->hp", q, k) / np.sqrt(dim)
            e = np.exp(score - score.max(-1, keepdims=True))
            attention[l] = e / e.sum(-1, keepdims=True)
            x = x + t("attn_output") @ np.einsum("hp,phd->hd", attention[l], v).ravel()
            h = norm(x, t("ffn_norm"))
            gate = t("ffn_gate") @ h
            x = x + t("ffn_down") @ (gate / (1 + np.exp(-gate)) * (t("ffn_up") @ h))
        return w["token_embd.weight"] @ norm(x, w["output_norm.weight"]), attention

    for position, token in enumerate(PROMPT):
        logits, attention = forward(token, position)
    tokens, logp, rows = [], [], []
    for step in range(STEPS):
        token = int(np.argmax(logits))
        tokens.append(token)
        logp.append(float(logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum())))
        logits, attention = forward(token, len(PROMPT) + step)
        rows.append(attention.mean((0, 1)))
    rows += list(attention.mean(1)) + list(attention[HEAD_LAYER])
    np.concatenate(rows).astype("<f4").tofile(prefix + ".f32")
    with open(prefix + ".json", "w") as f:
        json.dump({"model": r.meta["general.name"], "prompt": PROMPT, "tokens": tokens, "logp": [round(x, 7) for x in logp]}, f)
        f.write("\n")


main(*sys.argv[1:])
