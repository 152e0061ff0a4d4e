/** The first weights of nano-copy's pre-training copy, before any step. */
import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { pythonEnv, ROOT } from '../python.ts';
import { skipReason, torchPython } from '../../trainer/gradients/torch/torch-python.ts';

const PROGRAM = `
import json, pathlib, tempfile
import torch
from recipes.trunk.byte_pairs import load_tokenizer
from recipes.copy.laid_context import lay_context
from recipes.trunk.model import NanoConfig, init_weights
from recipes.copy.pretrain import Rows, losses_of
torch.set_num_threads(1)
tokenizer = load_tokenizer(pathlib.Path("packages/vf-search-models/models/nano-copy"))
config = NanoConfig(vocabulary=tokenizer.get_vocab_size(), hidden=160, feed_forward=320, rope_theta=1e6)
def share(weights, kind):
    rows, right, count = Rows(tokenizer, 7), 0, 0
    for _ in range(20):
        _, counts, hits, _ = losses_of(config, weights, [rows.draw({kind: 1.0})])
        right += (hits & (counts >= 1)).sum().item()
        count += (counts >= 1).sum().item()
    return right / count
models = {"laid": lay_context(config, init_weights(config, 5), 5), "random": init_weights(config, 5)}
print(json.dumps({name: {kind: share(weights, kind) for kind in ("repetition", "look_up")} for name, weights in models.items()}))
`;

describe.skipIf(torchPython.path === null)(`recipes/copy/laid_context.py${skipReason}`, () => {
  it(
    'copies more than half of all tokens of repeated words and of passages that were looked up; random weights copy none',
    { tags: 'long', timeout: 120_000 },
    () => {
      const printed = execFileSync(torchPython.path!, ['-c', PROGRAM], {
        cwd: ROOT,
        encoding: 'utf8',
        env: pythonEnv,
      });
      const { laid, random } = JSON.parse(printed) as Record<'laid' | 'random', { repetition: number; look_up: number }>;
      expect(Math.min(laid.repetition, laid.look_up)).toBeGreaterThan(0.5);
      expect(Math.max(random.repetition, random.look_up)).toBeLessThan(0.05);
    },
  );
});
