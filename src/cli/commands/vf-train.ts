/** Declares `vf-train`. */
import { wrap } from '../../reports/text/terminal-text.ts';
import { bundledPresets, presetsFor } from '../../sessions/environment/presets.ts';
import { placedEnvironment } from '../../sessions/training/placed-environment.ts';
import { EXIT } from '../command-line.ts';
import { defineCommand, optionalArgument } from '../options/define-command.ts';
import { namingFlags } from '../train/key-flags.ts';
import { TRAIN_OPTIONS } from '../train/train-options.ts';

const PRESET_COLUMN = 27;

function presetLines(): string[] {
  return bundledPresets().flatMap(({ name, environment, summary }, place, all) => [
    ...(all[place - 1]?.environment === environment ? [] : [`  of ${environment}:`]),
    ...wrap(summary, 80 - PRESET_COLUMN, { wholeWords: true }).map((line, i) => `${(i === 0 ? `    ${name}` : '').padEnd(PRESET_COLUMN)}${line}`),
  ]);
}

const NOTES = () => `
Presets:
${presetLines().join('\n')}

Precedence:
  defaults < preset < file < $VF_BASE_URL < flags < --set. Variables are read
  from the environment, then from ./.env. docs/training-config.md has every key.

Several runs:
  A file with [[ablation]] describes one run for each combination of the lists
  under [ablation.sweep] with each of its seeds. They are played one after the
  other, and a table of held-out rewards over seeds ends them. --dry-run lists
  them, FILE -R continues them, vf-compare prints the table again.

Results:
  <output-dir>/train/<run>/: config.toml (the complete configuration),
  metrics.jsonl (a line per step), rollouts/, adapters/, checkpoints/, plots/;
  best/adapter, the one with the highest held-out reward if it beats the start,
  after --sft alone the one with the lowest validation loss.

Exit codes:
  0  all steps are done
  1  the run could not continue or an alarm stopped it; the last line says why,
     -R continues
  2  a flag, a file or the configuration is wrong; with --dry-run: something
     is missing
  3  stopped at --max-cost; -R with a higher one continues
  129  stopped because the terminal was closed (SIGHUP); -R continues
  130  stopped by Ctrl-C; -R continues
  143  stopped by SIGTERM; -R continues`;

export const vfTrain = defineCommand({
  name: 'vf-train',
  summary:
    'Trains a LoRA adapter on rollouts: by GRPO, RLOO, REINFORCE++, or a loss of your own. vLLM samples groups of rollouts, their rewards become advantages, a PyTorch worker computes the gradients, and each new adapter is loaded into the running server. For small models, the embedded engine can replace either or both, in this process. With --sft, it trains on demonstrations, before rollouts or alone.',
  usage: ['vf-train <environment | config.toml> [options]', 'vf-train -R [run folder]', 'vf-train <ablation.toml> [-R]'],
  arguments: {
    environment: optionalArgument('an environment id such as search-r1, a path, or a TOML file', {
      label: 'environment | config.toml',
      completion: 'environments',
    }),
  },
  options: TRAIN_OPTIONS,
  needsWords: true,
  examples: [
    ['vf-train search-r1 --preset laptop', 'a first run that requires only Node: a bundled model learns to search in half a minute'],
    [
      'vf-train search-r1 --embedded -m /models/any-small-qwen3 --steps 50 --lr 1e-3',
      'any dense Qwen3 that fits in 4 GB (bfloat16: 2 bytes per weight), in this process',
    ],
    ['vf-train search-r1 -m nano-base --launch --vllm-python venv/bin/python', 'starts vLLM with the flags that the run needs'],
    [
      `vf-train search-r1 -m /models/Qwen2.5-3B -b http://127.0.0.1:8000/v1 \\\n    --preset search-r1-grpo -a dataset=nq -a retriever_url=http://...`,
      'uses a running vLLM on a GPU (with --enable-lora; vf-doctor checks it)',
    ],
    ['vf-train configs/train/qwen3-4b-nq.toml -b http://a:8000/v1,http://b:8000/v1', 'two replicas; flags override the file, --set overrides flags'],
    ['vf-train search-r1 -m nano-base --sft good.jsonl --embedded', 'supervised steps; without --embedded, --launch or -b nothing is played'],
    ['vf-train search-r1 --preset laptop --set algorithm.loss.use=./my-loss.ts', 'minimises a loss of your own (docs/training-joints.md)'],
    ['vf-train search-r1 -m M --launch --preset tinker --lr 2e-5 --show-config', 'prints every setting and its source'],
    [
      'vf-train run.toml --set backend.device= --set backend.devices=[0,1]',
      'unsets a setting of the file, and sets one that cannot be combined with it',
    ],
    ['vf-train search-r1 --preset laptop --push me/searcher', 'uploads the adapter and its model card to the Hugging Face hub'],
    ['vf-train configs/train/two-learning-rates.toml', 'six short runs: two learning rates with three seeds each, and a table'],
    ['vf-train -R outputs/train/<run>', 'continues from the last checkpoint, to the same weights'],
  ],
  notes: NOTES,
  explainUnknown: async (unknown) => (await import('../explain-argument.ts')).explainArgument(unknown),
  run: async ({ arguments: { environment }, options, wordsWithout, context }) => {
    if (options.helpConfig === true || options.listPresets === true) {
      const { configHelpText, presetsText } = await import('../../reports/training/config-help.ts');
      const isNamed = environment !== undefined && !environment.endsWith('.toml');
      const folder = options.envDirPath === undefined ? {} : { environmentsDir: options.envDirPath };
      const presets = () => (isNamed ? presetsFor(placedEnvironment(environment, folder)) : bundledPresets());
      process.stdout.write(options.helpConfig === true ? configHelpText() : presetsText(presets()));
      return EXIT.done;
    }
    const [{ trainArguments }, { runTrain }] = await Promise.all([import('../train/train-arguments.ts'), import('../train/run-train.ts')]);
    return namingFlags(runTrain(trainArguments({ arguments: { environment }, options }), context, wordsWithout('resume')));
  },
});
