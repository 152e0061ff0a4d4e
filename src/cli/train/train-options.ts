/** The options of `vf-train`. Those that set a key of the configuration take its kind, range and default from the schema of the configuration. */
import { assignments, file, flag, folder, number, optionalFolder, text, texts, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { ENVIRONMENTS_FOLDER, MAX_WAIT, ROLE } from '../options/shared-options.ts';
import { object } from '../options/table-kinds.ts';
import { setting } from './setting-option.ts';

export const TRAIN_OPTIONS = groups({
  'What is trained': {
    preset: text('ready-made settings, listed below; file and flags override them', { placeholder: 'NAME', completion: 'presets' }),
    model: setting('model', 'the base model: a Hugging Face directory, a bundled model, or owner/name on the hub', 'PATH'),
    envArgs: object('arguments of the training environment', { letter: 'a', example: '{"topk": 5}' }),
    evalArgs: object('override them for the evaluation environment', { example: '{"max_turns": 2}' }),
    ...ENVIRONMENTS_FOLDER,
    ...ROLE,
    name: setting('name', 'name of the run', 'NAME', 'environment and model'),
    outputDir: folder("parent of the run's folder", { letter: 'o', otherwise: 'outputs' }),
  },
  'Policy server (one of -b, --launch, --embedded, --tinker, $VF_BASE_URL)': {
    apiBaseUrl: texts('a running vLLM server, up to and including /v1; one for each replica, also with commas between them', {
      letter: 'b',
      placeholder: 'URL',
      commas: true,
    }),
    apiKeyVar: setting('apiKeyVar', 'environment variable that holds the API key', 'VAR'),
    serverModel: setting('serverModel', "the server's name for the base", 'NAME', 'its only model'),
    launch: flag('start vLLM with this run, with the flags it needs'),
    embedded: flag('sample and train in this process: no server, no Python'),
    tinker: text("sample and train at a service that speaks the Tinker API, on this base of its; -m is a folder with the base's tokenizer", {
      placeholder: 'NAME',
    }),
    vllmPython: file('the Python with vLLM; implies --launch', { placeholder: 'PATH' }),
  },
  Sampling: {
    maxTokens: setting('maxTokens', 'new tokens per generation', 'N', 'the environment decides'),
    temperature: setting('temperature', 'sampling temperature'),
    topP: number('must be 1: no trainer can reproduce log-probs below that', { from: 1, to: 1, otherwise: '1' }),
    samplingArgs: object('temperature, max_tokens and top_p in one; override -T, -t and --top-p', { letter: 'S', example: '{"temperature": 0.7}' }),
  },
  Training: {
    python: file('the Python with torch and transformers; implies the torch worker', { placeholder: 'PATH', otherwise: 'python3' }),
    sft: texts('only supervised steps, on the rows of this JSONL file (messages, prompt and segments, or token ids)', {
      placeholder: 'FILE',
      completion: 'files',
    }),
    rollouts: file("train on these rollouts instead of sampling: a file in vf-export's form, or - for stdin"),
    maxCost: setting(
      'maxCost',
      'start no further step once the models by role and the training service have cost this many US dollars; needs their prices (docs/roles.md, docs/tinker.md)',
      'USD',
    ),
    steps: wholeNumber('batches to train on; with --sft, supervised steps', { from: 0, otherwise: '100; with --sft, one pass' }),
    examplesPerStep: setting('examplesPerStep', 'rows per batch'),
    rolloutsPerExample: setting('rolloutsPerExample', 'rollouts per row, which form a group'),
    maxConcurrent: setting('maxConcurrent', 'concurrent rollouts'),
    ...MAX_WAIT,
    async: flag(
      'sample the next batch while training on this one, from a policy one step older; the loss corrects for it. For more steps: rollouts.max_staleness',
    ),
    lr: setting('lr', 'learning rate'),
    rank: setting('rank', 'rank of the adapter'),
    seed: setting('seed', 'order of rows, initial adapter, samples of the embedded engine; never sent to vLLM'),
    set: assignments('any key of the configuration; KEY= unsets it', { example: 'optimizer.learning_rate=1e-5' }),
  },
  Curves: {
    tensorboard: flag("write TensorBoard's event files, into tensorboard/ in the run's folder"),
    wandb: setting('wandb', 'write a run for Weights & Biases, which wandb sync uploads; needs no Python and no key', 'PROJECT'),
  },
  Runs: {
    resume: optionalFolder('continue a run: its folder, or the newest matching run', { letter: 'R' }),
    allowChanges: flag(
      'with -R: allow changes to [optimizer], [algorithm] and sft.learning_rate, and to files that the run names, such as an adapter or a corpus',
    ),
    push: text(
      'upload the adapter of the last step and its card to this model of the Hugging Face hub, a private one if it is new; the token is in $HF_TOKEN',
      {
        placeholder: 'OWNER/NAME',
      },
    ),
    pushBest: flag("with --push: upload the adapter in best/ instead of the last step's"),
    dryRun: flag(
      'print the settings, the size of a step and the first prompt, and check what the run needs: rows, prompts, server, disk; plays and writes nothing',
    ),
    gpuPrice: number('with --dry-run: US dollars for one GPU and hour; shows what a step and the run cost', { above: 0, placeholder: 'USD' }),
    showConfig: flag('print the resolved configuration as TOML and exit'),
    helpConfig: flag('print every key with default and meaning and exit'),
    listPresets: flag('print the presets, those of the environment first, and how they differ from upstream'),
  },
  Display: {
    json: flag('print the result as one JSON object on stdout'),
    plain: flag('no colour and no live display'),
    verbose: flag('show every failure, with stack traces', { letter: 'v' }),
  },
});

export type TrainValues = OptionValues<typeof TRAIN_OPTIONS>;
