"""The goldens of tests/it/forward_reference.rs: a model decoded greedily by numpy, written from the definitions.

Usage: python3 forward_reference.py MODEL.gguf OUT_PREFIX   (numpy 2; a minute for SmolLM2, some for Qwen2.5)

Nothing is shared with the program: the file is read, dequantised and run here, activations in binary64. Writes
OUT_PREFIX.json (prompt, tokens, natural log-probability of each token) and OUT_PREFIX.f32 (little-endian binary32):
the mean row of every step, then of the last step a row a layer, then its rows a head of layer 7.
"""

import json
import struct
import sys

import numpy as np

PROMPTS = {
    "llama": [1, 4093, 198, 6404, 346, 260, 2240, 281, 253, 1165, 30, 3726, 701, 3023, 338, 3410, 47, 2, 198, 1, 520, 9531, 198],
    "qwen2": [151644, 8948, 198, 2610, 525, 1207, 16948, 11, 3465, 553, 54364, 14817, 13, 1446, 525, 264, 10950, 17847, 13, 151645, 198, 151644, 872, 198, 7985, 264, 729, 429, 2727, 3425, 264, 1372, 374, 10250, 11, 323, 10339, 432, 13, 151645, 198, 151644, 77091, 198],
}
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
        numbers, size, widen = FORMATS[kind]
        raw = np.array(self.data[at : at + n // numbers * size])
        return widen(raw.reshape(-1, size)).reshape(dims[::-1]).astype(np.float32).astype(np.float64)


def half(blocks, at):
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def q4_1(b):
    return np.hstack([b[:, 4:] & 15, b[:, 4:] >> 4]).astype(np.float32) * half(b, 0) + half(b, 2)


def q5_0(b):
    fifth = np.unpackbits(b[:, 2:6], axis=1, bitorder="little")
    low = np.hstack([b[:, 6:] & 15, b[:, 6:] >> 4])
    return ((low | fifth << 4).astype(np.float32) - 16) * half(b, 0)


def q8_0(b):
    return b[:, 2:].view(np.int8).astype(np.float32) * half(b, 0)


def q4_k(b):
    # Eight groups of 32; scale and minimum of a group have six bits each, in twelve bytes.
    s = b[:, 4:16]
    scale = np.hstack([s[:, :4] & 63, s[:, 8:] & 15 | s[:, :4] >> 6 << 4]).astype(np.float32)
    low = np.hstack([s[:, 4:8] & 63, s[:, 8:] >> 4 | s[:, 4:8] >> 6 << 4]).astype(np.float32)
    q = b[:, 16:].reshape(-1, 4, 1, 32)
    q = np.concatenate([q & 15, q >> 4], 2).reshape(-1, 8, 32).astype(np.float32)
    out = (half(b, 0) * scale)[:, :, None] * q - (half(b, 2) * low)[:, :, None]
    return out.reshape(-1, 256)


def q6_k(b):
    # Two halves of 128; a half has four groups of 32 that share bytes, and eight scales of 16 numbers each.
    low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
    four = np.concatenate([low & 15, low >> 4], 2)
    two = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], 2)
    q = (four | two << 4).astype(np.float32) - 32
    scale = b[:, 192:208].copy().view(np.int8).astype(np.float32).reshape(-1, 16, 1)
    return (half(b, 208)[:, :, None] * scale * q.reshape(-1, 16, 16)).reshape(-1, 256)


# Numbers and bytes of a block.
FORMATS = {
    0: (1, 4, lambda b: b.copy().view("<f4")),
    3: (32, 20, q4_1),
    6: (32, 22, q5_0),
    8: (32, 34, q8_0),
    12: (256, 144, q4_k),
    14: (256, 210, q6_k),
}


def main(path, prefix):
    r = Reader(path)
    family = r.meta["general.architecture"]
    w, meta = r.weights, lambda k: r.meta[f"{family}.{k}"]
    prompt = PROMPTS[family]
    layers, heads, kv = meta("block_count"), meta("attention.head_count"), meta("attention.head_count_kv")
    hidden, eps = meta("embedding_length"), meta("attention.layer_norm_rms_epsilon")
    dim, base = hidden // heads, meta("rope.freq_base")
    keys = [[] for _ in range(layers)]
    values = [[] for _ in range(layers)]

    def norm(x, weights):
        return x / np.sqrt(np.mean(x * x) + eps) * weights

    def rotate(x, position):
        # A complex number is two neighbours in GGUF's llama, else two entries half a head apart.
        angle = position * base ** (-2 * np.arange(dim // 2) / dim)
        pairs = (x[:, 0::2], x[:, 1::2]) if family == "llama" else (x[:, : dim // 2], x[:, dim // 2 :])
        z = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angle)
        return np.stack([z.real, z.imag], -1 if family == "llama" else 1).reshape(x.shape)

    def forward(token, position):
        x = w["token_embd.weight"][token].astype(np.float64)
        attention = np.zeros((layers, heads, position + 1))
        for l in range(layers):
            t = lambda name: w[f"blk.{l}.{name}.weight"]
            h = norm(x, t("attn_norm"))
            qkv = [t(f"attn_{n}") @ h + w.get(f"blk.{l}.attn_{n}.bias", 0) for n in "qkv"]
            q = rotate(qkv[0].reshape(heads, dim), position)
            keys[l].append(rotate(qkv[1].reshape(kv, dim), position))
            values[l].append(qkv[2].reshape(kv, dim))
            k = np.repeat(np.array(keys[l]), heads // kv, 1)
            v = np.repeat(np.array(values[l]), heads // kv, 1)
            score = np.einsum("hd,phd->hp", q, k) / np.sqrt(dim)
            e = np.exp(score - score.max(-1, keepdims=True))
            attention[l] = e / e.sum(-1, keepdims=True)
            x = x + t("attn_output") @ np.einsum("hp,phd->hd", attention[l], v).ravel()
            h = norm(x, t("ffn_norm"))
            gate = t("ffn_gate") @ h
            x = x + t("ffn_down") @ (gate / (1 + np.exp(-gate)) * (t("ffn_up") @ h))
        return w.get("output.weight", w["token_embd.weight"]) @ norm(x, w["output_norm.weight"]), attention

    for position, token in enumerate(prompt):
        logits, attention = forward(token, position)
    tokens, logp, rows = [], [], []
    for step in range(STEPS):
        token = int(np.argmax(logits))
        tokens.append(token)
        logp.append(float(logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum())))
        logits, attention = forward(token, len(prompt) + step)
        rows.append(attention.mean((0, 1)))
    rows += list(attention.mean(1)) + list(attention[HEAD_LAYER])
    np.concatenate(rows).astype("<f4").tofile(prefix + ".f32")
    with open(prefix + ".json", "w") as f:
        json.dump({"model": r.meta["general.name"], "prompt": prompt, "tokens": tokens, "logp": [round(x, 7) for x in logp]}, f)
        f.write("\n")


main(*sys.argv[1:])
