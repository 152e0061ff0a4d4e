/**
 * Commands that repeat a run: with vLLM for sampling and PyTorch for training, or with other parts. They are derived from the resolved configuration, so they
 * also work for a run that was resumed or described in a file, and they resolve to the same settings.
 */
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import { type Preset, presetLayer } from '../../trainer/config/preset.ts';
import { type ConfigLayer, resolveTrainingConfig } from '../../trainer/config/resolve-config.ts';
import { describeDifferences } from '../../trainer/config/resume-config.ts';
import { hideSecrets } from '../../transport/redact.ts';
import { bundledName, installedModels } from '../../data/bundled-models.ts';
import { KEY_FLAGS } from './flags.ts';
import { presetNamed } from '../../sessions/environment/presets.ts';
import { nestedTable } from '../../schemas/config-keys.ts';
import { parseValue } from './setting-text.ts';
import { tomlValue } from '../../reports/training/toml-value.ts';
import { isObject } from '../../schemas/is-object.ts';

const ARGUMENTS = ['args', 'eval_args'] as const;
/** A setting can change the meaning of another (warm-up depends on the number of steps): a further pass then adds the other one. */
const PASSES = 3;

/** What samples and what trains in the repetition. */
export interface CommandParts {
  /** Flags that name the sampler, and the settings that they make. */
  readonly flags: readonly string[];
  readonly policy: ConfigLayer;
  readonly backend: 'torch' | 'embedded';
  /** Settings without which the configuration would be refused, by key; always written. @default none */
  readonly settings?: ReadonlyMap<string, unknown>;
}

export const LAUNCHED: Omit<CommandParts, 'backend'> = {
  flags: ['--launch'],
  policy: { source: '--launch', table: { policy: { base_url: null, launch: {}, embedded: null } } },
};

/**
 * The arguments of `vf-train` on a GPU machine. Leaves out settings of this machine (output folder, Python, threads).
 * @param named the preset that the run names; null for none
 */
export function gpuCommand(wire: TrainingConfigWire, named: string | null): string[] {
  return commandWords(wire, named, { ...LAUNCHED, backend: 'torch' });
}

/** As `gpuCommand`, with other parts. */
export function commandWords(wire: TrainingConfigWire, named: string | null, parts: CommandParts): string[] {
  const { id } = wire.environment;
  const preset = named === null ? null : presetNamed(named, id);
  const { path } = wire.model;
  const ofPreset = preset === null ? [] : [presetLayer(preset)];
  const base = [...ofPreset, { source: 'command line', table: { environment: { id }, model: { path } } }, parts.policy];
  const settings = new Map(parts.settings);
  for (let pass = 0; pass < PASSES; pass++) {
    const current = resolveTrainingConfig([...base, ...[...settings].map(settingLayer)]).wire;
    for (const [key, value] of differences(current, withOtherParts(wire, current, parts.backend))) {
      const before = settings.get(key);
      settings.set(key, isObject(before) && isObject(value) ? { ...before, ...value } : value);
    }
  }
  return [
    id,
    ...(preset === null ? [] : ['--preset', preset.name]),
    ...(isModelOf(preset, path) ? [] : ['-m', modelWord(path)]),
    ...parts.flags,
    ...[...settings].flatMap(([key, value]) => settingWords(key, hideSecrets(value, key.split('.').at(-1)))),
  ];
}

/** The run's configuration, with the other machine's settings taken from the second argument. */
function withOtherParts(
  wire: TrainingConfigWire,
  { output_dir, policy, backend }: TrainingConfigWire,
  kind: CommandParts['backend'],
): TrainingConfigWire {
  const { python, device, devices, sharding, dtype, threads } = backend;
  return { ...wire, output_dir, policy, backend: { ...wire.backend, kind, python, device, devices, sharding, dtype, threads } };
}

function differences(current: TrainingConfigWire, wanted: TrainingConfigWire): [key: string, value: unknown][] {
  const ofArguments = ARGUMENTS.flatMap((table): [string, unknown][] => {
    const [before, after] = [current.environment[table], wanted.environment[table]];
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    const changed = names.filter((name) => JSON.stringify(before[name] ?? null) !== JSON.stringify(after[name] ?? null));
    return changed.length === 0 ? [] : [[`environment.${table}`, Object.fromEntries(changed.map((name) => [name, after[name] ?? null]))]];
  });
  const others = describeDifferences(current, wanted).filter(({ key }) => !key.startsWith('environment.'));
  return [...ofArguments, ...others.map(({ key, after }): [string, unknown] => [key, after])];
}

function settingLayer([key, value]: [string, unknown]): ConfigLayer {
  return { source: '--set', table: nestedTable(key, value) };
}

function isModelOf(preset: Preset | null, path: string): boolean {
  const model = preset?.table['model'];
  return isObject(model) && typeof model['path'] === 'string' && modelWord(model['path']) === modelWord(path);
}

/** A bundled model by its name, which is valid on every machine. */
function modelWord(path: string): string {
  return bundledName(installedModels().get(path) ?? path) ?? path;
}

/** Uses the key's own flag if it has one. */
function settingWords(key: string, value: unknown): string[] {
  // --sft also decides what --steps means, so both are set by key.
  const isPlain = key.startsWith('sft.') || (key === 'steps' && value === 0);
  const flag = KEY_FLAGS.find((each) => !isPlain && each.key === key && (each.kind !== 'switch' || each.value === value));
  if (flag === undefined) return ['--set', `${key}=${settingText(key, value)}`];
  const [word] = flag.flags.split(/[ ,]/);
  return flag.kind === 'switch' ? [word!] : [word!, flag.kind === 'json' ? JSON.stringify(value) : settingText(key, value)];
}

/** The shortest text that parses to this value. */
function settingText(key: string, value: unknown): string {
  if (value === null) return 'null';
  return typeof value === 'string' && parseValue(key, value) === value ? value : tomlValue(value);
}
