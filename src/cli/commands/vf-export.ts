/** Declares `vf-export`, which writes the rollouts of a finished or running evaluation for a trainer. */
import { argument, defineCommand } from '../options/define-command.ts';
import { file, flag, number, text, wholeNumber } from '../options/kinds.ts';
import { table } from '../options/option.ts';

const NOTES = `
Each line is one finished rollout: token_ids, loss_mask and logprobs of equal
length, the segments they belong to, the reward and its metrics, and the policy
that sampled it. Failed rollouts are left out and counted on stderr. Only runs
with token ids can be exported (vLLM, embedded), not those over a chat API.

Rejection sampling in two commands: supervised rows from the rollouts that were
rewarded, at most the best two of each row, and supervised steps on them.

  vf-export <run directory> --sft --min-reward 1 --best 2 -o good.jsonl
  vf-train search-r1 -m Qwen/Qwen3-4B --sft good.jsonl --launch

docs/results.md describes every field; readRollouts('rollouts.jsonl') of the
package reads and checks them.`;

export const vfExport = defineCommand({
  name: 'vf-export',
  summary: 'Writes rollouts for a trainer: those of an evaluation, or of a step of a training, one JSON object per line.',
  arguments: {
    directory: argument('the results folder that vf-eval printed, or the folder of a training run', {
      label: 'run directory',
      completion: 'folders',
    }),
  },
  options: table({
    output: file('file to write; an existing file is replaced; - is stdout. With --adapter: a new folder', { letter: 'o', required: true }),
    step: wholeNumber('export the rollouts of this step of a training run', { from: 1 }),
    sft: flag('write supervised rows for vf-train --sft: the token ids and which of them the policy wrote'),
    minReward: number('leave out rollouts with a lower reward', {}),
    adapter: flag('write the adapter that a training service keeps (vf-train --tinker) as a PEFT folder'),
    apiKeyVar: text("with --adapter: environment variable that holds the service's API key", {
      letter: 'k',
      placeholder: 'VAR',
      otherwise: 'TINKER_API_KEY',
    }),
    best: wholeNumber('keep at most the N best rollouts of each row of the data', { from: 1 }),
  }),
  examples: [
    ['vf-eval search-r1 -n 50 -p vllm -m Qwen/Qwen3-4B', 'a run to export'],
    ['vf-export outputs/evals/search-r1--Qwen--Qwen3-4B/1a2b3c4d -o rollouts.jsonl', 'all of its finished rollouts'],
    ['vf-export <run directory> -o - | head -1 | jq .reward', 'to another program'],
    ['vf-export outputs/train/RUN --step 12 -o step-12.jsonl', 'a step of a training run, which keeps the rollouts of its steps'],
    ['vf-export outputs/train/RUN --adapter -o adapter', 'the adapter of its newest checkpoint, from the service that trained it'],
  ],
  notes: NOTES,
  run: async ({ arguments: { directory }, options, context }) => {
    if (options.adapter === true) {
      const { exportAdapterOf } = await import('../export/export-adapter-of.ts');
      return exportAdapterOf(directory, options, context);
    }
    const { exportRollouts } = await import('../export/export-rollouts.ts');
    return exportRollouts(directory, options, context);
  },
});
