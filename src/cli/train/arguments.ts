/** Parses the command line of `vf-train` into configuration layers. Knows no defaults and reads no files. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../core/errors.ts';
import { nestedTable } from '../../schemas/config-keys.ts';
import type { TrainingRequest } from '../../sessions/training/resolve-training.ts';
import type { ConfigLayer } from '../../trainer/config/resolve-config.ts';
import { mergeRoleTables } from '../../schemas/roles-config.ts';
import { parseProgram } from '../parse-program.ts';
import { parseRoleFlag } from '../roles/role-flag.ts';
import { KEY_FLAGS, type KeyFlag } from './flags.ts';
import { HELP_AFTER, HELP_BEFORE } from './help.ts';
import { parseJsonObject, parseSet, parseValue } from './setting-text.ts';

export interface TrainDisplay {
  /** Print only one JSON object on stdout, at the end. */
  readonly json: boolean;
  /** No colour, no live display. */
  readonly plain: boolean;
  readonly verbose: boolean;
}

/** The layers are those of the flags, `--set` last. */
export interface TrainArguments extends TrainingRequest {
  readonly kind: 'train';
  /** `dry-run` opens the environment and trains nothing, `show-config` prints the resolved configuration. */
  readonly action: 'train' | 'dry-run' | 'show-config';
  /** Model of the hub to which the adapter is pushed; null for none. */
  readonly push: string | null;
  readonly display: TrainDisplay;
}

export type ParsedTrainArguments =
  | TrainArguments
  /** Help or version was printed. */
  | { readonly kind: 'printed'; readonly exitCode: number }
  | { readonly kind: 'list-presets'; /** Null if none is named. */ readonly environment: string | null }
  | { readonly kind: 'help-config' };

/** Throws a one-line ConfigError for an unknown flag or a malformed value; values themselves are checked with the configuration. */
export function parseTrainArguments(argv: readonly string[], version: string): ParsedTrainArguments {
  const program = trainProgram(version);
  const exitCode = parseProgram(program, argv);
  if (exitCode !== null) return { kind: 'printed', exitCode };
  const options = program.opts<Record<string, unknown>>();
  if (options['helpConfig'] === true) return { kind: 'help-config' };
  const target = (program.processedArgs[0] as string | undefined) ?? null;
  if (options['listPresets'] === true) return { kind: 'list-presets', environment: target?.endsWith('.toml') === true ? null : target };
  const { resume } = options;
  if (target === null && resume === undefined && options['preset'] === undefined) {
    throw new ConfigError('Name an environment or a TOML file; try vf-train search-r1 --preset laptop, or vf-train --help');
  }
  if (resume === undefined && options['allowChanges'] === true)
    throw new ConfigError('--allow-changes needs -R: it allows changes to a run that is resumed');
  return {
    kind: 'train',
    action: options['dryRun'] === true ? 'dry-run' : options['showConfig'] === true ? 'show-config' : 'train',
    target,
    preset: (options['preset'] as string | undefined) ?? null,
    layers: layersOf(options),
    resume: resume === undefined ? null : { directory: typeof resume === 'string' ? resume : null, allowChanges: options['allowChanges'] === true },
    push: (options['push'] as string | undefined) ?? null,
    display: { json: options['json'] === true, plain: options['plain'] === true, verbose: options['verbose'] === true },
  };
}

export function trainProgram(version: string): Command {
  const program = new Command('vf-train')
    .description(HELP_BEFORE)
    .usage('<environment | config.toml> [options]')
    .argument('[environment]', 'an environment id such as search-r1, a path, or a TOML file')
    .version(version, '-V, --version')
    .configureHelp({ helpWidth: 80 })
    .addHelpText('after', HELP_AFTER)
    .optionsGroup('What is trained:')
    .option('--preset <name>', 'ready-made settings, listed below; file and flags override them');
  const groups = {
    What: 'What is trained:',
    Policy: 'Policy server (one of -b, --launch, --embedded, $VF_BASE_URL):',
    Training: 'Training:',
    Curves: 'Curves:',
  };
  for (const flag of KEY_FLAGS) program.addOption(optionOf(flag).helpGroup(groups[flag.group]));
  return program
    .optionsGroup('Training:')
    .option('--set <key=value>', 'any key of the configuration; may be repeated', collect)
    .optionsGroup('Runs:')
    .option('-R, --resume [dir]', 'continue a run: its folder, or the newest matching run')
    .option('--allow-changes', 'with -R: allow changes to [optimizer] and [algorithm]')
    .option(
      '--push <owner/name>',
      'upload the adapter and its card to this model of the Hugging Face hub, a private one if it is new; the token is in $HF_TOKEN',
    )
    .option('--dry-run', 'open the environment and print the settings, the size of a step and the first prompt; asks no server (vf-doctor does)')
    .option('--show-config', 'print the resolved configuration as TOML and exit')
    .option('--help-config', 'print every key with default and meaning and exit')
    .option('--list-presets', 'print the presets, those of the environment first, and how they differ from upstream')
    .optionsGroup('Display:')
    .option('--json', 'print the result as one JSON object on stdout')
    .option('--plain', 'no colour and no live display')
    .option('-v, --verbose', 'show every failure, with stack traces');
}

function optionOf({ flags, help, kind }: KeyFlag): Option {
  const option = new Option(flags, help);
  return kind === 'urls' || kind === 'roles' || kind === 'files' ? option.argParser(collect) : option;
}

function collect(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

function layersOf(options: Readonly<Record<string, unknown>>): ConfigLayer[] {
  const layers: ConfigLayer[] = [];
  for (const flag of KEY_FLAGS) {
    const option = new Option(flag.flags);
    const given = options[option.attributeName()];
    if (given === undefined) continue;
    // With --sft, --steps are the supervised ones: there are no others.
    const meant = flag.key === 'steps' && options['sft'] !== undefined ? { ...flag, key: 'sft.steps' } : flag;
    layers.push({ source: option.long!, table: flagTable(meant, given, option.long!) });
  }
  assertOneServer(layers.map(({ source }) => source));
  return [...layers, ...((options['set'] as readonly string[] | undefined) ?? []).map((text) => ({ source: '--set', table: parseSet(text) }))];
}

const SERVER_FLAGS: readonly { readonly flags: readonly string[]; readonly what: string }[] = [
  { flags: ['--api-base-url'], what: '-b (a running server)' },
  { flags: ['--launch', '--vllm-python'], what: '--launch (a vLLM started with this run)' },
  { flags: ['--embedded'], what: '--embedded (this process)' },
];

function assertOneServer(given: readonly string[]): void {
  const named = SERVER_FLAGS.filter(({ flags }) => flags.some((flag) => given.includes(flag)));
  const [own] = named.filter(({ flags }) => !flags.includes('--api-base-url'));
  if (own !== undefined && given.includes('--api-key-var'))
    throw new ConfigError(`-k names the API key of a running server (-b); leave it out with ${own.what}`);
  if (named.length < 2) return;
  throw new ConfigError(`Use only one of ${SERVER_FLAGS.map(({ what }) => what).join(', ')}; got ${named.map(({ what }) => what).join(' and ')}`);
}

function flagTable({ key, kind, value, table }: KeyFlag, given: unknown, long: string): Readonly<Record<string, unknown>> {
  switch (kind) {
    case 'switch':
      return table ?? nestedTable(key, value);
    case 'json':
      return nestedTable(key, parseJsonObject(String(given), long));
    case 'roles': {
      const tables = (given as readonly string[]).map((text) => parseRoleFlag(text, long));
      return { roles: tables.reduce(mergeRoleTables, {}) };
    }
    case 'files': {
      const files = given as readonly string[];
      return { sft: { data: files.length === 1 ? files[0] : files }, steps: 0 };
    }
    case 'urls': {
      const urls = (given as readonly string[]).flatMap((text) => text.split(',')).map((url) => url.trim());
      return { policy: { base_url: urls.length === 1 ? urls[0] : urls, launch: null, embedded: null } };
    }
    default: {
      const parsed = parseValue(key, String(given));
      if (key === 'policy.launch.python') return { policy: { base_url: null, api_key_var: null, launch: { python: parsed }, embedded: null } };
      // Only the torch worker needs a Python, whatever a preset says.
      return key === 'backend.python' ? { backend: { kind: 'torch', python: parsed } } : nestedTable(key, parsed);
    }
  }
}
