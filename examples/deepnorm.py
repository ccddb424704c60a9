"""DeepNorm: post-LN whose stream is multiplied by α = (2N)^(1/4), with the value, output and FFN maps initialised by β = (8N)^(-1/4)."""

import torch.nn as nn
import torch.nn.functional as F


class DeepNormLayer(nn.Module):
    def __init__(self, embed_dim, num_heads, ffn_dim, alpha, beta):
        super().__init__()
        self.alpha = alpha
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)
        for proj, gain in ((self.q_proj, 1), (self.k_proj, 1), (self.v_proj, beta), (self.out_proj, beta), (self.fc1, beta), (self.fc2, beta)):
            nn.init.xavier_normal_(proj.weight, gain=gain)
            nn.init.zeros_(proj.bias)

    def residual_connection(self, x, residual):
        return residual * self.alpha + x

    def attend(self, x):
        bsz, seq_len, dim = x.shape
        split = lambda t: t.reshape(bsz, seq_len, self.num_heads, -1).transpose(1, 2)  # noqa: E731
        x = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x)))
        return self.out_proj(x.transpose(1, 2).reshape(bsz, seq_len, dim))

    def forward(self, x):
        residual = x
        x = self.attend(x)
        x = self.residual_connection(x, residual)
        x = self.self_attn_layer_norm(x)
        residual = x
        x = self.fc2(F.gelu(self.fc1(x)))
        x = self.residual_connection(x, residual)
        x = self.final_layer_norm(x)
        return x


class DeepNormEncoder(nn.Module):
    def __init__(self, vocab=512, embed_dim=96, num_heads=4, ffn_dim=384, layers=18):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, embed_dim)
        self.layernorm_embedding = nn.LayerNorm(embed_dim)
        alpha, beta = (2 * layers) ** 0.25, (8 * layers) ** -0.25
        self.layers = nn.ModuleList([DeepNormLayer(embed_dim, num_heads, ffn_dim, alpha, beta) for _ in range(layers)])

    def forward(self, tokens):
        x = self.layernorm_embedding(self.embed_tokens(tokens))
        for layer in self.layers:
            x = layer(x)
        return x
