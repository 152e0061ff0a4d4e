/** Declares `vf-eval`. */
import { EVAL_OPTIONS } from '../eval/eval-options.ts';
import { argument, defineCommand } from '../options/define-command.ts';

const NOTES = `
Which policy plays:
  The first of these that is given: -b, -p, an alias named by -m, VF_BASE_URL
  (with VF_MODEL and VF_API_KEY). Without any, the built-in baseline plays.
  Variables are read from the environment, then from ./.env.

Several runs:
  A file with [[eval]] describes one run for each of these tables, and one with
  [[ablation]] one run for each combination of the lists under [ablation.sweep],
  seed among them. They are played one after the other, and a table of rewards
  on the rows that they share ends them. FILE -R continues them.

Saved results:
  <output-dir>/evals/<environment>--<model>/<run>/: results.jsonl (one rollout
  per line, written when it ends) and metadata.json. A failed rollout is saved
  with its error and without a reward; it never counts as 0.

Exit codes:
  0  every rollout was recorded (failed ones included, unless all failed)
  1  the run could not continue, or every rollout failed
  2  a flag, an argument, a file or the configuration is wrong; with --dry-run:
     something is missing
  3  stopped at --max-cost; finished rollouts are saved, -R continues
  129  the terminal was closed (SIGHUP), which stops the command as Ctrl-C does
  130  stopped by Ctrl-C; finished rollouts are saved, -R continues
  143  the same for SIGTERM`;

export const vfEval = defineCommand({
  name: 'vf-eval',
  summary: 'Evaluates a policy in an environment.',
  usage: ['vf-eval <environment> [options]', 'vf-eval <file.toml> [display options]'],
  arguments: {
    environment: argument('an id such as search-r1, a path, or a TOML file that describes several runs', {
      label: 'environment | file.toml',
      completion: 'environments',
    }),
  },
  options: EVAL_OPTIONS,
  examples: [
    ['vf-eval search-r1 -n 50', 'no model and no key: the built-in baseline answers 50 questions'],
    [
      'vf-eval search-r1 -n 50 -p embedded',
      'a small model in this process; -m: another Qwen3 model or an adapter, a directory or owner/name of the Hugging Face hub',
    ],
    ['vf-eval search-r1 -n 50 -p vllm -m Qwen/Qwen2.5-3B-Instruct', 'a model served by vLLM on this machine, by token ids'],
    [
      'vf-eval search-r1 -n 100 -r 4 -b https://host/v1 -k MY_KEY -m my-model',
      'any OpenAI-compatible API, key in $MY_KEY; 4 rollouts per row, for pass@k',
    ],
    ['vf-eval search-r1 -n -1 -a topk=5 -a max_turns=4', `all rows, with arguments for the environment; also -a '{"topk": 5, "max_turns": 4}'`],
    ['vf-eval search-r1 -n 500 -p vllm -m Qwen/Qwen3-4B --push me/my-runs', 'uploads the run to the Hugging Face hub as a data set with a card'],
    ['vf-eval search-r1 -n -1 -R', 'continues the newest run with the same settings'],
  ],
  notes: NOTES,
  explainUnknown: async (unknown) => (await import('../eval/explain-flag.ts')).explainFlag(unknown),
  run: async (invocation) => (await import('../eval/run-evaluations.ts')).runEvaluations(invocation),
});
