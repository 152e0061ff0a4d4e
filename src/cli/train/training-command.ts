/**
 * The command of a run for people elsewhere: as `gpuCommand`, with the run's own sampler. Servers that were running are replaced by `--launch`, and paths of this
 * machine by what is valid on others: hub ids, paths below the working directory, names.
 */
import { existsSync } from 'node:fs';
import { basename, isAbsolute, relative } from 'node:path';
import { baseName } from '../../engine/adapters/base-name.ts';
import { bundledName } from '../../data/bundled-models.ts';
import type { TrainingConfigWire } from '../../schemas/training-config.ts';
import { isObject } from '../../schemas/is-object.ts';
import { defaultRunName } from '../../trainer/config/resolve-config.ts';
import { mapStrings } from '../../transport/redact.ts';
import { shellCommand } from '../../reports/text/shell-text.ts';
import { type CommandParts, commandWords, LAUNCHED } from './gpu-command.ts';
import { presetNamed } from '../../sessions/environment/presets.ts';

const EMBEDDED = {
  source: '--embedded',
  table: { policy: { base_url: null, launch: null, embedded: {} }, backend: { kind: 'embedded' } },
};
/** What a run without a policy server must say before anything else. */
const WITHOUT_POLICY = ['sft.data', 'rollouts_file', 'steps', 'evaluation.every'];

/** @param named the preset that the run names; null for none */
export function trainingCommand(wire: TrainingConfigWire, named: string | null): string {
  const shown = withoutPlaces(wire);
  return shellCommand(['npx', '-p', 'vf-search', 'vf-train', ...commandWords(shown, named, partsOf(shown, named))]);
}

function partsOf(wire: TrainingConfigWire, named: string | null): CommandParts {
  const { policy, backend } = wire;
  if (policy.embedded !== null)
    return { policy: EMBEDDED, flags: isEmbedded(named, wire.environment.id) ? [] : ['--embedded'], backend: backend.kind };
  if (policy.launch !== null || policy.base_url !== null) return { ...LAUNCHED, backend: backend.kind };
  const settings = new Map(WITHOUT_POLICY.flatMap((key) => settingOf(wire, key)));
  return { policy: { source: 'no policy', table: {} }, flags: [], backend: backend.kind, settings };
}

function settingOf(wire: TrainingConfigWire, key: string): [key: string, value: unknown][] {
  const value = key.split('.').reduce<unknown>((table, part) => (isObject(table) ? table[part] : null), wire) ?? null;
  return value === null ? [] : [[key, value]];
}

function isEmbedded(named: string | null, environment: string): boolean {
  const policy = named === null ? null : presetNamed(named, environment).table['policy'];
  return isObject(policy) && isObject(policy['embedded']);
}

/** Environment arguments may hold text that looks like a path, so only what exists here counts as one. */
function withoutPlaces(wire: TrainingConfigWire): TrainingConfigWire {
  const { environment, model, name } = wire;
  const shown = mapStrings(wire, (text) => (isAbsolute(text) && existsSync(text) ? nearPath(text) : text));
  const path = bundledName(model.path) ?? nearPath(baseName(model.path));
  // A name that says no more than the path did gives way to that of the new path.
  const isDefault = name === defaultRunName(environment.id, model.path);
  return { ...shown, model: { ...shown.model, path }, ...(isDefault ? { name: defaultRunName(shown.environment.id, path) } : {}) };
}

/** A path outside the working directory says nothing elsewhere but its name. */
function nearPath(path: string): string {
  const near = isAbsolute(path) ? relative('', path) : path;
  return near === '' || near.startsWith('..') || isAbsolute(near) ? basename(path) : near;
}
