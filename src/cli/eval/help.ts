/** `vf-eval --help`: everything needed for a first and a second run, in 80 columns, without loading anything heavy. */
import { wrap } from '../../reports/text/terminal-text.ts';
import { type Flag, FLAGS, type FlagGroup } from './flags.ts';
import { PROVIDER_NAMES } from '../../sessions/policy/providers.ts';

const GROUPS: readonly FlagGroup[] = ['Environment', 'Policy', 'Sampling', 'Rollouts', 'Results', 'Display'];

/** `style` colours a heading. */
export function renderHelp(style: (text: string) => string = (text) => text): string {
  const heading = (text: string) => style(text);
  return [
    'vf-eval plays an environment against a policy and reports how well it performs.',
    '',
    heading('Usage'),
    '  vf-eval <environment> [options]    an id such as search-r1, or a path',
    '  vf-eval <file.toml> [display options]    several runs, described in a file',
    '',
    heading('Examples'),
    '  vf-eval search-r1 -n 50',
    '      no model and no key: the built-in baseline answers 50 questions',
    '  vf-eval search-r1 -n 50 -p embedded',
    '      a small model in this process; -m: another Qwen3 model or an adapter, a',
    '      directory or owner/name of the Hugging Face hub',
    '  vf-eval search-r1 -n 50 -p vllm -m Qwen/Qwen2.5-3B-Instruct',
    '      a model served by vLLM on this machine, by token ids',
    '  vf-eval search-r1 -n 100 -r 4 -b https://host/v1 -k MY_KEY -m my-model',
    '      any OpenAI-compatible API, key in $MY_KEY; 4 rollouts per row, for pass@k',
    `  vf-eval search-r1 -n -1 -a '{"topk": 5, "max_turns": 4}'`,
    '      all rows, with arguments for the environment',
    '  vf-eval search-r1 -n 500 -p vllm -m Qwen/Qwen3-4B --push me/my-runs',
    '      uploads the run to the Hugging Face hub as a data set with a card',
    '  vf-eval search-r1 -n -1 -R',
    '      continues the newest run with the same settings',
    '',
    ...GROUPS.flatMap((group) => [heading(group), ...FLAGS.filter((f: Flag) => f.group === group).flatMap(flagLines), '']),
    heading('Policy'),
    '  The first of these that is given: -b, -p, an alias named by -m, VF_BASE_URL',
    '  (with VF_MODEL and VF_API_KEY). Without any, the built-in baseline plays.',
    '  Variables are read from the environment, then from ./.env.',
    '',
    heading('Results'),
    '  <output-dir>/evals/<environment>--<model>/<run>/: results.jsonl (one rollout',
    '  per line, written when it ends) and metadata.json. A failed rollout is saved',
    '  with its error and without a reward; it never counts as 0.',
    '',
    heading('Exit codes'),
    '  0  every rollout was recorded (failed ones included, unless all failed)',
    '  1  the run could not continue, or every rollout failed',
    '  2  a flag, an argument, a file or the configuration is wrong',
    '  3  stopped at --max-cost; finished rollouts are saved, -R continues',
    '  130  stopped by Ctrl-C; finished rollouts are saved, -R continues',
    '',
  ].join('\n');
}

const COLUMN = 32;

function flagLines(flag: Flag): string[] {
  const letter = flag.letter === undefined ? '    ' : `-${flag.letter}, `;
  const value = flag.value === undefined ? '' : flag.kind === 'resume' ? ` [${flag.value}]` : ` ${flag.value}`;
  const left = `  ${letter}--${flag.name}${value}`;
  const lines = wrap(flag.help.replace('{providers}', PROVIDER_NAMES.join(', ')), 80 - COLUMN, { wholeWords: true });
  const fits = left.length < COLUMN - 1;
  const first = fits ? [left.padEnd(COLUMN) + lines[0]] : [left, ' '.repeat(COLUMN) + lines[0]];
  return [...first, ...lines.slice(1).map((line) => ' '.repeat(COLUMN) + line)];
}
