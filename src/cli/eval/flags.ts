/**
 * Every option of `vf-eval`: the parser, the TOML reader and `--help` all use this table. Letters and long names are those of verifiers v0
 * where v0 has the option; `docs/vf-eval.md` lists where the meaning differs.
 */

/** Kind of value. `roles` and `headers` may be repeated; `switch` takes no value; `resume` takes an optional one. */
export type FlagKind = 'roles' | 'text' | 'integer' | 'number' | 'object' | 'names' | 'headers' | 'switch' | 'resume';

export type FlagGroup = 'Environment' | 'Policy' | 'Sampling' | 'Rollouts' | 'Results' | 'Display';

export interface Flag {
  /** Without the leading dashes; with `_` instead of `-` it is the key in a TOML file. */
  readonly name: string;
  readonly letter?: string;
  readonly kind: FlagKind;
  /** Placeholder for the value in the help. */
  readonly value?: string;
  readonly group: FlagGroup;
  /** A short phrase with unit and default. */
  readonly help: string;
  /** Bounds of a number, inclusive. */
  readonly minimum?: number;
  readonly maximum?: number;
}

export const FLAGS = [
  {
    name: 'env-args',
    letter: 'a',
    kind: 'object',
    value: 'JSON',
    group: 'Environment',
    help: 'arguments of the environment, a JSON object (default {})',
  },
  {
    name: 'extra-env-kwargs',
    letter: 'x',
    kind: 'object',
    value: 'JSON',
    group: 'Environment',
    help: 'further arguments, which override those of -a (default {})',
  },
  { name: 'env-dir-path', kind: 'text', value: 'DIR', group: 'Environment', help: 'folder of your own environments (default ./environments)' },

  { name: 'model', letter: 'm', kind: 'text', value: 'NAME', group: 'Policy', help: 'model name, or an alias of endpoints.toml' },
  { name: 'provider', letter: 'p', kind: 'text', value: 'NAME', group: 'Policy', help: 'base URL and key variable by name: {providers}' },
  { name: 'api-base-url', letter: 'b', kind: 'text', value: 'URL', group: 'Policy', help: 'any OpenAI-compatible server, up to and including /v1' },
  { name: 'api-key-var', letter: 'k', kind: 'text', value: 'VAR', group: 'Policy', help: 'environment variable that holds the API key' },
  { name: 'api-client-type', kind: 'text', value: 'TYPE', group: 'Policy', help: 'auto, tokens or chat (default auto: what the server supports)' },
  {
    name: 'endpoints-path',
    letter: 'e',
    kind: 'text',
    value: 'FILE',
    group: 'Policy',
    help: 'aliases and replicas (default ./configs/endpoints.toml)',
  },
  {
    name: 'role',
    kind: 'roles',
    value: 'NAME=MODEL',
    group: 'Policy',
    help: "the model for one of the environment's roles, such as its judge: an alias, URL, MODEL@URL, builtin or policy; may be repeated",
  },
  { name: 'header', kind: 'headers', value: '"N: V"', group: 'Policy', help: 'HTTP header sent to the server; may be repeated' },

  {
    name: 'max-tokens',
    letter: 't',
    kind: 'integer',
    value: 'N',
    group: 'Sampling',
    minimum: 1,
    help: 'new tokens per generation (default: the environment decides)',
  },
  {
    name: 'temperature',
    letter: 'T',
    kind: 'number',
    value: 'X',
    group: 'Sampling',
    minimum: 0,
    maximum: 100,
    help: '0 is greedy (default 1, always sent)',
  },
  {
    name: 'sampling-args',
    letter: 'S',
    kind: 'object',
    value: 'JSON',
    group: 'Sampling',
    help: 'further fields of the request; override -t and -T (default {})',
  },

  {
    name: 'num-examples',
    letter: 'n',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: -1,
    help: "rows to play, -1 for all (default: the environment's, else 5)",
  },
  {
    name: 'rollouts-per-example',
    letter: 'r',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 1,
    maximum: 1_000_000,
    help: 'rollouts per row; above 1 adds pass@k (default 1)',
  },
  {
    name: 'seed',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 0,
    help: 'seeds --shuffle, the baseline and -p embedded; never sent to other servers (default 0)',
  },
  { name: 'shuffle', kind: 'switch', group: 'Rollouts', help: 'play the rows in random order' },
  { name: 'shuffle-seed', kind: 'integer', value: 'N', group: 'Rollouts', minimum: 0, help: 'seed of the random order (default: --seed)' },
  {
    name: 'max-concurrent',
    letter: 'c',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 1,
    help: 'rollouts in flight at once (default 32)',
  },
  {
    name: 'max-scoring',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 1,
    help: 'rollouts scored at once, in addition to those in flight (default: -c)',
  },
  {
    name: 'scoring-timeout',
    kind: 'number',
    value: 'S',
    group: 'Rollouts',
    minimum: 0,
    help: 'seconds to compute the rewards of a rollout, 0 for no limit (default: --timeout)',
  },
  { name: 'timeout', kind: 'number', value: 'S', group: 'Rollouts', minimum: 0, help: 'seconds per rollout, 0 for no limit (default 0)' },
  {
    name: 'max-retries',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 0,
    help: 'retries after a transient failure (default 3)',
  },
  {
    name: 'max-cost',
    kind: 'number',
    value: 'USD',
    group: 'Rollouts',
    minimum: 0.000001,
    help: 'begin no further rollouts once the run has cost this many US dollars; needs prices in endpoints.toml (default no limit)',
  },
  { name: 'independent-scoring', letter: 'i', kind: 'switch', group: 'Rollouts', help: 'score each rollout alone, without group rewards' },

  { name: 'output-dir', letter: 'o', kind: 'text', value: 'DIR', group: 'Results', help: 'where runs are saved (default ./outputs)' },
  { name: 'save-results', letter: 's', kind: 'switch', group: 'Results', help: 'accepted for compatibility with v0; results are always saved' },
  {
    name: 'push',
    kind: 'text',
    value: 'OWNER/NAME',
    group: 'Results',
    help: 'upload the finished run to this data set of the Hugging Face hub, a private one if it is new; the token is in HF_TOKEN',
  },
  { name: 'state-columns', letter: 'C', kind: 'names', value: 'A,B', group: 'Results', help: "keys of the episode's state to save as columns" },
  { name: 'resume', letter: 'R', kind: 'resume', value: 'DIR', group: 'Results', help: 'continue a run: the one in DIR, or the newest that matches' },

  { name: 'abbreviated-summary', letter: 'A', kind: 'switch', group: 'Display', help: 'figures only, no transcript' },
  { name: 'verbose', letter: 'v', kind: 'switch', group: 'Display', help: 'whole transcript, every failure, stack traces' },
  { name: 'json', kind: 'switch', group: 'Display', help: 'print only the summary on stdout, as one JSON object' },
  { name: 'plain', kind: 'switch', group: 'Display', help: 'no colour and no live progress (default without a terminal)' },
  { name: 'dry-run', kind: 'switch', group: 'Display', help: 'open everything, print what would run and the first prompt' },
  { name: 'help', letter: 'h', kind: 'switch', group: 'Display', help: 'print this help' },
  { name: 'version', kind: 'switch', group: 'Display', help: 'print the version' },
] as const satisfies readonly Flag[];

export type FlagName = (typeof FLAGS)[number]['name'];

/** Options of verifiers v0 that vf-eval does not have, with what to do instead. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  '-N': 'v0 never used it either',
  '--no-interleave-scoring': 'v0 never used it either',
  '-H': 'use --push OWNER/NAME',
  '--save-to-hf-hub': 'use --push OWNER/NAME',
  '-D': 'use --push OWNER/NAME',
  '--hf-hub-dataset-name': 'use --push OWNER/NAME',
  '-f': 'progress is always shown in a few lines',
  '--fullscreen': 'progress is always shown in a few lines',
  '-d': 'use --plain',
  '--disable-tui': 'use --plain',
  '-w': 'all rollouts share one process; -c sets how many run at once',
  '--num-workers': 'all rollouts share one process; -c sets how many run at once',
  '--disable-env-server': 'environments always run in this process',
  '--heartbeat-url': 'watch results.jsonl instead, which grows with every rollout',
  '--header-from-state': 'a rollout always stays on one replica',
};
