/** Arguments of `vf-train` for the three roles of self-play with the nano coder. */
import { join } from 'node:path';
import { PYTHON } from './train-process.ts';

const RESPONSE_TOKENS = 110;

/** A step of 12 proposals takes a few seconds on one quiet core. The policy server is the caller's choice. */
export function selfPlayArgs({ steps }: { readonly steps: number }): string[] {
  const settings = {
    'rollouts.examples_per_step': 4,
    'rollouts.rollouts_per_example': 4,
    'rollouts.max_tokens': RESPONSE_TOKENS,
    'evaluation.every': 0,
    'checkpoint.every': 1,
    'checkpoint.keep_rollouts': true,
    'lora.rank': 16,
    'optimizer.learning_rate': 1e-3,
    'backend.threads': 1,
    'guards.max_log_prob_difference': 1e-4,
    'guards.on_alarm': 'stop',
  };
  const model = join(import.meta.dirname, '../../packages/vf-search-models/models/nano-coder');
  const length = { max_response_length: RESPONSE_TOKENS };
  const args = { prompt: 'mini', ...length };
  return ['self-play-code', '--preset', 'crsp', '-m', model, '--python', PYTHON, '-o', '.', '--steps', String(steps)].concat(
    ['-a', JSON.stringify(args), '--eval-args', JSON.stringify(length)],
    Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
  );
}
