/** The table `[sft]` of a training configuration: supervised steps on demonstrations. */
import { count, countOrNull, number, numberOrNull, table, textOrNull, choice } from './config-table.ts';
import { anyOf, filledListOf, filledText } from './json-schema.ts';

export const sft = table('Supervised steps (SFT), before the steps on rollouts.', {
  data: {
    ...anyOf(filledText, filledListOf(filledText), { type: 'null' }),
    default: null,
    description: 'Demonstrations: a JSONL or Parquet file or several (docs/supervised.md describes the rows). Null: none.',
  },
  problems: textOrNull(
    'Worked problems ({question, solution, answer}, as in LIMO) to learn from first: a bundled name, a file, or a data set of the hub. The run writes them to seed-rows.jsonl as vf-seed does, and adds these rows to data. Needs steps.',
  ),
  images: textOrNull('Folder of the pictures that rows name, by path or by SHA-256. Null: rows show none.'),
  steps: countOrNull('Number of supervised steps. Default: one pass over the rows for each of `epochs`.'),
  epochs: count('Passes over the rows if `steps` is not set.', 1),
  batch_size: count('Rows of an optimiser step.', 32),
  max_length: countOrNull(
    "Longest row in tokens; a longer one is left out and counted. Default: the model's window; or the policy server's, which with [policy.launch] or [policy.embedded] is the environment's longest rollout, or what the embedded engine has memory for, if that is smaller.",
  ),
  learning_rate: numberOrNull('Peak learning rate of these steps. Default: optimizer.learning_rate.', null),
  schedule: choice(['constant', 'linear', 'cosine'], 'Learning rate over the supervised steps, after the warm-up.'),
  warmup_steps: count('Supervised steps of linear warm-up.', 0, 0),
  aggregation: choice(
    ['token_mean', 'sequence_mean', 'sequence_mean_token_sum'],
    'How token losses become one number: over all trained tokens of the step, or per row first.',
  ),
  held_out: number(
    'Rows held out for the validation loss: a share below 1, or a number of rows. They are all rows of the last questions after a seeded shuffle, so they may be a few more. Rows of one `group_id`, else `example_id`, else prompt are one question.',
    0,
  ),
  validation: textOrNull('A JSONL file of rows for the validation loss, instead of held_out.'),
  validate_every: count(
    'Supervised steps between validations; also before the first and after the last. With held-out rows, the adapter with the lowest loss is kept in best/.',
    10,
  ),
  mix_weight: number('Weight of the supervised loss in the steps on rollouts, which then also take batch_size rows. 0: none.', 0),
});
