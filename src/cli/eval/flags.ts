/**
 * Every option of `vf-eval`, once: the parser, the TOML reader and `--help` all read this table. Letters and long names are those of
 * verifiers v0 where v0 has the option; `docs/vf-eval.md` says where a meaning differs.
 */

/** How a value is written. `roles` may be given more than once; `switch` takes none; `resume` takes one or none; `headers` may be given more than once. */
export type FlagKind = 'roles' | 'text' | 'integer' | 'number' | 'object' | 'names' | 'headers' | 'switch' | 'resume';

export type FlagGroup = 'Environment' | 'Policy' | 'Sampling' | 'Rollouts' | 'Results' | 'Display';

export interface Flag {
  /** Without the dashes; with `_` for `-` it is the key of a TOML file. */
  readonly name: string;
  readonly letter?: string;
  readonly kind: FlagKind;
  /** Stands for the value in the help. */
  readonly value?: string;
  readonly group: FlagGroup;
  /** One or two short sentences with unit and default. */
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
    help: 'further arguments, set over those of -a (default {})',
  },
  { name: 'env-dir-path', kind: 'text', value: 'DIR', group: 'Environment', help: 'where your own environments lie (default ./environments)' },

  { name: 'model', letter: 'm', kind: 'text', value: 'NAME', group: 'Policy', help: 'model name, or an alias of endpoints.toml' },
  { name: 'provider', letter: 'p', kind: 'text', value: 'NAME', group: 'Policy', help: 'base URL and key variable by name: {providers}' },
  { name: 'api-base-url', letter: 'b', kind: 'text', value: 'URL', group: 'Policy', help: 'any OpenAI-compatible server, up to and with /v1' },
  { name: 'api-key-var', letter: 'k', kind: 'text', value: 'VAR', group: 'Policy', help: 'environment variable that holds the API key' },
  { name: 'api-client-type', kind: 'text', value: 'TYPE', group: 'Policy', help: 'auto, tokens or chat (default auto: the server is asked)' },
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
    value: 'NAME=WHO',
    group: 'Policy',
    help: 'who plays a role of the environment, such as its judge: an alias, URL, MODEL@URL, builtin or policy; may be repeated',
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
    help: 'further fields of the request; wins over -t and -T (default {})',
  },

  {
    name: 'num-examples',
    letter: 'n',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: -1,
    help: "rows to play, -1 for all (default 5, or the environment's)",
  },
  {
    name: 'rollouts-per-example',
    letter: 'r',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 1,
    maximum: 1_000_000,
    help: 'rollouts of each row; above 1 adds pass@k (default 1)',
  },
  {
    name: 'seed',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 0,
    help: 'order of rows, draws of the baseline and of -p embedded; never sent elsewhere (default 0)',
  },
  { name: 'shuffle', kind: 'switch', group: 'Rollouts', help: 'play rows in random order instead of from the first' },
  { name: 'shuffle-seed', kind: 'integer', value: 'N', group: 'Rollouts', minimum: 0, help: 'seed of that order (default: --seed)' },
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
    help: 'rollouts scored at once, apart from those in flight (default: -c)',
  },
  {
    name: 'scoring-timeout',
    kind: 'number',
    value: 'S',
    group: 'Rollouts',
    minimum: 0,
    help: 'seconds for the rewards of a rollout, 0 for no limit (default: --timeout)',
  },
  { name: 'timeout', kind: 'number', value: 'S', group: 'Rollouts', minimum: 0, help: 'seconds per rollout, 0 for no limit (default 0)' },
  {
    name: 'max-retries',
    kind: 'integer',
    value: 'N',
    group: 'Rollouts',
    minimum: 0,
    help: 'further attempts after a failure that may pass (default 3)',
  },
  { name: 'independent-scoring', letter: 'i', kind: 'switch', group: 'Rollouts', help: 'score each rollout alone, without group rewards' },

  { name: 'output-dir', letter: 'o', kind: 'text', value: 'DIR', group: 'Results', help: 'where runs are saved (default ./outputs)' },
  { name: 'save-results', letter: 's', kind: 'switch', group: 'Results', help: "accepted for v0's sake: results are always saved" },
  { name: 'state-columns', letter: 'C', kind: 'names', value: 'A,B', group: 'Results', help: "keys of the episode's state to save as columns" },
  { name: 'resume', letter: 'R', kind: 'resume', value: 'DIR', group: 'Results', help: 'continue a run: DIR, or the newest one that matches' },

  { name: 'abbreviated-summary', letter: 'A', kind: 'switch', group: 'Display', help: 'figures only, no transcript' },
  { name: 'verbose', letter: 'v', kind: 'switch', group: 'Display', help: 'whole transcript, every failure, stack traces' },
  { name: 'json', kind: 'switch', group: 'Display', help: 'the summary as one JSON object on stdout, nothing else there' },
  { name: 'plain', kind: 'switch', group: 'Display', help: 'no colour and no moving progress, as where there is no terminal' },
  { name: 'dry-run', kind: 'switch', group: 'Display', help: 'resolve everything, show what would run and the first prompt' },
  { name: 'help', letter: 'h', kind: 'switch', group: 'Display', help: 'this text' },
  { name: 'version', kind: 'switch', group: 'Display', help: 'print the version' },
] as const satisfies readonly Flag[];

export type FlagName = (typeof FLAGS)[number]['name'];

/** Options of verifiers v0 that are left out, and what to do instead. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  '-N': 'v0 parsed it and never used it',
  '--no-interleave-scoring': 'v0 parsed it and never used it',
  '-H': 'upload results.jsonl with the tools of the hub',
  '--save-to-hf-hub': 'upload results.jsonl with the tools of the hub',
  '-D': 'upload results.jsonl with the tools of the hub',
  '--hf-hub-dataset-name': 'upload results.jsonl with the tools of the hub',
  '-f': 'progress needs no full screen',
  '--fullscreen': 'progress needs no full screen',
  '-d': 'use --plain',
  '--disable-tui': 'use --plain',
  '-w': 'rollouts share one process; -c sets how many are in flight',
  '--num-workers': 'rollouts share one process; -c sets how many are in flight',
  '--disable-env-server': 'environments always run in process',
  '--heartbeat-url': 'watch results.jsonl grow instead',
  '--header-from-state': 'a rollout stays on one replica without it',
};
