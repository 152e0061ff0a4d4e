/** The flags of `vf-train` that set one configuration key. The parser and `--help` use this table. */

export interface KeyFlag {
  /** In commander's syntax. */
  readonly flags: string;
  /** Dotted key of the configuration. */
  readonly key: string;
  readonly group: 'What' | 'Policy' | 'Training' | 'Curves';
  readonly help: string;
  /** `json`: a JSON object; `urls`: may be repeated or hold commas; `roles`: `role=model`, may be repeated; `files`: may be repeated; `switch`: no value. @default text */
  readonly kind?: 'json' | 'urls' | 'roles' | 'files' | 'switch';
  /** Value that a switch sets. */
  readonly value?: unknown;
  /** For a switch that sets several keys. */
  readonly table?: Readonly<Record<string, unknown>>;
}

export const KEY_FLAGS: readonly KeyFlag[] = [
  {
    flags: '-m, --model <path>',
    key: 'model.path',
    group: 'What',
    help: 'the base model: a Hugging Face directory, a bundled model, or owner/name on the hub',
  },
  {
    flags: '-a, --env-args <json>',
    key: 'environment.args',
    group: 'What',
    kind: 'json',
    help: 'arguments of the training environment, a JSON object',
  },
  {
    flags: '--eval-args <json>',
    key: 'environment.eval_args',
    group: 'What',
    kind: 'json',
    help: 'override them for the evaluation environment',
  },
  {
    flags: '--role <name=model>',
    key: 'roles',
    group: 'What',
    kind: 'roles',
    help: "the model for one of the environment's roles, such as its judge: an alias, URL, MODEL@URL, builtin or policy; may be repeated",
  },
  { flags: '--name <name>', key: 'name', group: 'What', help: 'name of the run (default: environment and model)' },
  { flags: '-o, --output-dir <dir>', key: 'output_dir', group: 'What', help: "parent of the run's folder (default outputs)" },

  {
    flags: '-b, --api-base-url <url>',
    key: 'policy.base_url',
    group: 'Policy',
    kind: 'urls',
    help: 'a running vLLM server, up to and including /v1; repeat for each replica, or use commas',
  },
  { flags: '-k, --api-key-var <var>', key: 'policy.api_key_var', group: 'Policy', help: 'environment variable that holds the API key' },
  { flags: '--server-model <name>', key: 'policy.model', group: 'Policy', help: "the server's name for the base (default: its only model)" },
  {
    flags: '--launch',
    key: 'policy.launch',
    group: 'Policy',
    kind: 'switch',
    // The flag overrides a server in a file.
    table: { policy: { base_url: null, api_key_var: null, launch: {}, embedded: null } },
    help: 'start vLLM with this run, with the flags it needs',
  },
  {
    flags: '--embedded',
    key: 'policy.embedded',
    group: 'Policy',
    kind: 'switch',
    table: { policy: { base_url: null, api_key_var: null, launch: null, embedded: {} }, backend: { kind: 'embedded' } },
    help: 'sample and train in this process: no server, no Python',
  },
  { flags: '--vllm-python <path>', key: 'policy.launch.python', group: 'Policy', help: 'the Python with vLLM; implies --launch' },

  {
    flags: '--python <path>',
    key: 'backend.python',
    group: 'Training',
    help: 'the Python with torch and transformers (default python3); implies the torch worker',
  },
  {
    flags: '--sft <file>',
    key: 'sft.data',
    group: 'Training',
    kind: 'files',
    help: 'only supervised steps, on the rows of this JSONL file (messages, prompt and segments, or token ids); may be repeated',
  },
  {
    flags: '--rollouts <file>',
    key: 'rollouts_file',
    group: 'Training',
    help: "train on these rollouts instead of sampling: a file in vf-export's form, or - for stdin",
  },
  {
    flags: '--max-cost <usd>',
    key: 'guards.max_cost',
    group: 'Training',
    help: 'begin no further step once the models by role have cost this many US dollars; needs their prices (docs/roles.md)',
  },
  {
    flags: '--steps <n>',
    key: 'steps',
    group: 'Training',
    help: 'batches to train on (default 100); with --sft, supervised steps (default: one pass)',
  },
  { flags: '-n, --examples-per-step <n>', key: 'rollouts.examples_per_step', group: 'Training', help: 'rows per batch (default 64)' },
  {
    flags: '-r, --rollouts-per-example <n>',
    key: 'rollouts.rollouts_per_example',
    group: 'Training',
    help: 'rollouts per row, which form a group (default 8)',
  },
  { flags: '-c, --max-concurrent <n>', key: 'rollouts.max_concurrent', group: 'Training', help: 'concurrent rollouts (default 256)' },
  {
    flags: '--async',
    key: 'rollouts.max_staleness',
    group: 'Training',
    kind: 'switch',
    value: 1,
    help: 'sample the next batch while training on this one, from a policy one step older, which the loss corrects; for more steps: rollouts.max_staleness',
  },
  { flags: '--lr <x>', key: 'optimizer.learning_rate', group: 'Training', help: 'learning rate (default 4e-5)' },
  { flags: '--rank <n>', key: 'lora.rank', group: 'Training', help: 'rank of the adapter (default 16)' },
  {
    flags: '--seed <n>',
    key: 'seed',
    group: 'Training',
    help: 'order of rows, initial adapter, samples of the embedded engine; never sent to vLLM (default 0)',
  },

  {
    flags: '--tensorboard',
    key: 'logging.tensorboard',
    group: 'Curves',
    kind: 'switch',
    value: true,
    help: "write TensorBoard's event files, into tensorboard/ in the run's folder",
  },
  {
    flags: '--wandb <project>',
    key: 'logging.wandb.project',
    group: 'Curves',
    help: 'write a run for Weights & Biases, which wandb sync uploads; needs no Python and no key',
  },
];
